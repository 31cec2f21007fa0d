"""Write and print the results of a sweep: tables, figures, the report page and a summary."""

import math
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from sweeper.plan.experiment import SUFFIX
from sweeper.results.collect import collect, write_tables
from sweeper.results.judge import Verdicts, judge, lines, verdicts_by_name
from sweeper.results.paper_tables import summarise
from sweeper.results.summary import brief
from sweeper.results.table import RunFiles, Table, exported
from sweeper.run.schedule import Phase, Schedule
from sweeper.stages.terminal import print_lines
from sweeper.store.errors import Faults, UserError, as_typed, sanitize
from sweeper.store.numbers import plural
from sweeper.store.plans import newest, stem

PAGE_S = 30.0  # write the report page at most once in this many seconds
# Writing the page may take at most this share of the CPU time of the runs.
PAGE_SHARE = 0.01
OWN_GRID = "-m model.heads=4,8,16 model.head_size=8,32 seed=0,1,2"


@dataclass
class LivePage(ExitStack):
    """A writer that updates the report page in the background while runs train.

    Call `tick` at each poll. Between two pages, the writer waits PAGE_S seconds. It waits longer if
    writing would take more than PAGE_SHARE of the CPU time of the runs. If a signal or an error
    stops the sweep, the page is written once more. If the sweep ends normally, `print_everything`
    writes the final page.

    Attributes:
        outputs: the outputs folder.
        slots: the number of runs that train at the same time.
    """

    outputs: Path
    slots: int

    def __post_init__(self) -> None:
        super().__init__()
        self._writer = self.enter_context(ThreadPoolExecutor(max_workers=1))
        self._due = time.monotonic() + PAGE_S / 3
        self.push(self._end)

    def tick(self) -> None:
        """Start writing the page in the background if it is due."""
        if time.monotonic() >= self._due:
            self._due = math.inf
            self._writer.submit(self.write)

    def write(self, refresh_s: float | None = PAGE_S) -> None:
        """Write the page. Browsers reload it every `refresh_s` seconds, or never if it is None."""
        from sweeper.results.report.page import write_report

        began, faults = time.thread_time(), Faults()
        with suppress(UserError, OSError):  # print_everything reports the error
            # Write no files of tables, since another sweep may have written newer ones meanwhile.
            tables = collect(self.outputs, None, faults)
            verdicts = verdicts_by_name(tables, faults)
            judged = [table for table in tables if table.name in verdicts]
            write_report(
                self.outputs, judged, verdicts, refresh_s=refresh_s, faults=faults
            )
        pause = (time.thread_time() - began) / PAGE_SHARE / self.slots
        self._due = time.monotonic() + max(PAGE_S, pause)

    def _end(self, error: type[BaseException] | None, *_: object) -> None:
        """Write the page once more if a signal or an error stopped the sweep."""
        if error:
            self._writer.shutdown()
            self.write(refresh_s=None)


def collect_and_judge(
    outputs: Path,
    experiments: Sequence[str] | None,
    into: Path | None = None,
    faults: Faults | None = None,
) -> tuple[list[Table], Verdicts]:
    """Write and return the tables and the verdicts of experiments.

    Args:
        outputs: the outputs folder.
        experiments: the names of the experiments; None for all.
        into: the folder to write to; None for `outputs`.
        faults: a list to which errors are appended. Experiments with an error are left out of the
            result. If `faults` is None, the first error is raised.
    """
    tables = collect(outputs, experiments, faults)
    written = write_tables(into or outputs, tables, faults)
    verdicts = judge(into or outputs, written, faults)
    return [table for table in tables if table.name in verdicts], verdicts


def print_tables(
    console: Console, outputs: Path, tables: Sequence[Table], verdicts: Verdicts
) -> list[Path]:
    """Print each table and its verdicts. Return the paths of the tables' files."""
    for table in tables:
        sentences = lines(verdicts[table.name], console.width)
        print_lines(console, "", *summarise(table), *sentences)
    return [exported(outputs, table) for table in tables]


def print_everything(
    console: Console, outputs: Path, experiments: Sequence[str]
) -> bool:
    """Draw the figures, write the page, and print the verdicts and the paths of all files.

    For a single experiment, also print the means of its points. Draw a figure only if at least one
    run is done, and if its table or its code has changed. The page shows all experiments in the
    outputs folder.

    Return whether all records of `experiments` could be read, judged and drawn.
    """
    from sweeper.results.figures import is_drawn, is_measured, update_figures
    from sweeper.results.report.page import write_report

    faults = Faults()
    tables, verdicts = collect_and_judge(outputs, experiments, faults=faults)
    judged = [table for table in tables if not table.name.endswith(SUFFIX)]
    if len(judged) == 1:
        print_lines(console, "", *summarise(judged[0]))
    if rows := [*brief(tables, verdicts)]:
        print_lines(console, "", *rows)

    update_figures(outputs, tables, faults)
    whole = not faults

    rest = [name for name in newest(outputs) if name not in experiments]
    others = _updated(outputs, rest, tables, faults) if rest else []
    verdicts = {**verdicts_by_name(others, faults), **verdicts}
    every = [table for table in (*tables, *others) if table.name in verdicts]
    page = write_report(outputs, every, verdicts, faults=faults)
    # Print each error only once, since a figure that failed above fails again in the page.
    errors = dict.fromkeys(sanitize(str(fault), 2000) for fault in faults)
    print_lines(console, *errors)

    figures = outputs / "figures"
    shown = [one for one in tables if is_measured(one) and is_drawn(outputs, one)]
    drawn = [figures / f"{stem(table.name)}.png" for table in shown]
    heading = "Figures (also as .pdf and .svg) and tables:" if drawn else "Tables:"
    files = [f"  {relative_path(path)}" for path in (*drawn, outputs / "tables")]
    steps = _next_steps(outputs, page, tables, others=bool(rest))
    print_lines(console, "", heading, *files, "", *steps)
    return whole


def _updated(
    outputs: Path, names: Sequence[str], trained: Sequence[Table], faults: Faults
) -> list[Table]:
    """Return the tables of the experiments `names`, and bring their files up to date.

    If an experiment shares runs with the tables in `trained`, write its table and verdicts, because
    these runs, or the number of claims about them, may have changed. Draw all figures that are out
    of date.
    """
    from sweeper.results.figures import update_figures

    others = collect(outputs, names, faults)
    runs = {row["run"] for table in trained for row in table.rows}
    shared = [one for one in others if any(row["run"] in runs for row in one.rows)]
    judge(outputs, write_tables(outputs, shared, faults), faults)
    update_figures(outputs, others, faults)
    return others


def _is_mirrored(files: RunFiles) -> bool:
    """Return whether a run is mirrored to Weights & Biases."""
    return bool(files.config.get("logger.name") == "wandb")


def _next_steps(
    outputs: Path, page: Path, tables: Sequence[Table], *, others: bool
) -> Iterator[str]:
    """Yield lines that suggest what to do after a sweep, with paths and commands.

    Args:
        outputs: the outputs folder.
        page: the path of the report page.
        tables: the tables of the sweep.
        others: whether the outputs folder has further experiments. If so, the commands name the
            experiments of the sweep.
    """
    where = relative_path(outputs)
    words = [table.name for table in tables] if others else []
    if where != "outputs":
        words += ["--outputs", where]
    options = shlex.join(words)
    wandb = outputs / "wandb"
    offline = {path.name.split("-", 3)[-1] for path in wandb.glob("offline-run-*")}
    files = {run: own for table in tables for run, own in table.files.items()}

    yield "Next:"
    yield "  Open the page, with every claim, figure and run:"
    yield f"    {relative_path(page)}"
    if offline & files.keys():
        yield "  Upload the curves to Weights & Biases:"
        yield f"    wandb sync {shlex.quote(relative_path(wandb))}"
    elif any(map(_is_mirrored, files.values())):
        yield "  Save a dashboard in Weights & Biases:"
        yield f"    {as_typed('dashboard')} {options}".rstrip()
    else:
        yield "  Print every table and verdict:"
        yield f"    {as_typed('collect')} {options}".rstrip()
    if not all(table.is_grid for table in tables):
        yield "  Train a grid of your own:"
        yield f"    {as_typed('sweep')} {OWN_GRID}"


def print_unfinished(
    console: Console, schedule: Schedule, labels: Mapping[str, str]
) -> None:
    """Print which runs of a schedule are not done, and why. `labels` maps run ids to names."""
    unfinished = [
        state for state in schedule.states.values() if state.phase is not Phase.DONE
    ]
    if not unfinished:
        return
    words = f"{len(unfinished)} of {plural(len(labels), 'run')} not done:"
    print_lines(console, words, style="bold red")

    begun = [state for state in unfinished if state.phase is not Phase.WAITING]
    if schedule.breaker.tripped:
        waiting = len(unfinished) - len(begun)
        left = f"{waiting} not started" if waiting else "No more runs start"
        print_lines(console, f"  {left}: {schedule.breaker.tripped}")
    for state in begun:
        run = schedule.store.run(state.job.run)
        attempt = run.status().attempt
        log = relative_path(run.attempt(attempt).log_path)
        where = f", log: {log}" if attempt > state.before else ""
        print_lines(console, f"  {labels[run.id]}: {state.reason}{where}")


def relative_path(path: Path) -> str:
    """Return `path` relative to the working directory. Return it unchanged if it is not inside."""
    try:
        return str(path.relative_to(Path.cwd()))
    except (OSError, ValueError):  # OSError if the working directory was deleted
        return str(path)
