"""The results of a sweep: tables, verdicts and warnings in the terminal, figures and the page."""

import math
import shlex
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

from rich.console import Console
from rich.text import Text

from sweeper.results.collect import collect, write_tables
from sweeper.results.judge import Verdicts, judge, lines, verdicts_on
from sweeper.results.paper_tables import summarise
from sweeper.results.points import not_learned, standing
from sweeper.results.summary import brief
from sweeper.results.table import RunFiles, Table, exported, stem
from sweeper.run.schedule import JobState, Phase, Schedule
from sweeper.store.errors import Faults, UserError, as_typed, collect_errors, sanitize
from sweeper.store.numbers import plural
from sweeper.store.plans import newest

PAGE_S = 30.0
PAGE_SHARE = 0.01
OWN_GRID = "-m model.heads=4,8,16 model.head_size=8,32 seed=0,1,2"


class ResultsAsTheyCome(ExitStack):
    """A publisher of results while runs train: the page, and the figure of each done experiment.

    It writes the page at most every PAGE_S seconds, and spends on it at most PAGE_SHARE of the CPU
    time of the runs. It leaves the last page and the last figure to `print_everything`.

    Args:
        console: where to print the paths of figures.
        outputs: the outputs folder.
        left: the runs that are still to be trained, by experiment.
        slots: the number of runs at a time.
    """

    def __init__(
        self,
        console: Console,
        outputs: Path,
        left: Mapping[str, Collection[str]],
        slots: int,
    ) -> None:
        super().__init__()
        self._console, self._outputs, self._slots = console, outputs, slots
        self._left = {name: set(runs) for name, runs in left.items() if runs}
        self._painter = self.enter_context(ThreadPoolExecutor(max_workers=1))
        self._page_due = time.monotonic() + PAGE_S / 3
        self.push(self._end)

    def changed(self, state: JobState | None) -> None:
        """Write the page if it is due. Draw each experiment whose last run is now done."""
        if state is None and time.monotonic() >= self._page_due:
            self._page_due = math.inf
            self._painter.submit(self.write_page)
        if state is None or state.phase is not Phase.DONE:
            return
        for runs in self._left.values():
            runs.discard(state.job.run)
        for name in [name for name, runs in self._left.items() if not runs]:
            del self._left[name]
            if self._left:
                self._painter.submit(self.draw, name)

    def draw(self, name: str) -> None:
        """Collect and draw one experiment, and print the path of its figure."""
        from sweeper.results.figures import write_figures

        with suppress(UserError):  # print_everything reports the error
            tables = collect(self._outputs, [name])
            write_tables(self._outputs, tables)
            figures = write_figures(self._outputs, tables)
            drawn = next(path for path in figures if path.suffix == ".png")
            self._console.print(
                Text(f"{name} is drawn: {relative_path(drawn)}"), soft_wrap=True
            )

    def write_page(self, refresh_s: float | None = PAGE_S) -> None:
        """Write the page of all experiments. An open page reloads itself after `refresh_s`."""
        from sweeper.results.report.page import write_report

        began, faults = time.thread_time(), Faults()
        with suppress(UserError, OSError):  # print_everything reports the error
            tables, verdicts = (
                collect(self._outputs, list(newest(self._outputs)), faults),
                {},
            )
            for table in tables:
                with collect_errors(faults, table.name):
                    verdicts[table.name] = verdicts_on(table)
            shown = [table for table in tables if table.name in verdicts]
            write_report(
                self._outputs, shown, verdicts, refresh_s=refresh_s, faults=faults
            )
        pause = (time.thread_time() - began) / PAGE_SHARE / self._slots
        self._page_due = time.monotonic() + max(PAGE_S, pause)

    def _end(self, error: type[BaseException] | None, *_: object) -> None:
        """Write the last page of a sweep that was stopped, since nothing else will."""
        if error:
            self._painter.shutdown()
            self.write_page(refresh_s=None)


def collect_and_judge(
    outputs: Path,
    experiments: Sequence[str] | None,
    into: Path | None = None,
    faults: Faults | None = None,
) -> tuple[list[Table], Verdicts]:
    """Write and return the tables of experiments, and the verdicts by the name of the experiment.

    Args:
        outputs: the outputs folder.
        experiments: their names; None for all.
        into: the folder to write to; None for `outputs`.
        faults: collects the error of each experiment that cannot be judged, and leaves it out. With
            None, the first error is raised.
    """
    tables = collect(outputs, experiments, faults)
    written = write_tables(into or outputs, tables, faults)
    verdicts = judge(into or outputs, written, faults)
    return [table for table in tables if table.name in verdicts], verdicts


def print_tables(
    console: Console, outputs: Path, tables: Sequence[Table], verdicts: Verdicts
) -> list[Path]:
    """Print each table and the verdicts on it. Return the paths of the tables."""
    for table in tables:
        console.print()
        for line in (*summarise(table), *lines(verdicts[table.name])):
            console.print(Text(line), soft_wrap=True)
    return [exported(outputs, table) for table in tables]


def print_everything(
    console: Console, outputs: Path, experiments: Sequence[str]
) -> bool:
    """Draw the figures, write the page, and print the verdicts and the paths of all files.

    For a single experiment without claims, print its table in place of verdicts. Draw a figure only
    if its table has changed and a run is done. The page shows every experiment ever planned.

    Return whether all records of these experiments could be read, judged and drawn.
    """
    from sweeper.results.figures import is_drawn, is_measured, write_figures
    from sweeper.results.report.page import write_report

    faults = Faults()
    tables, verdicts = collect_and_judge(outputs, experiments, faults=faults)
    console.print()
    rows = list[Text]()
    if len(tables) == 1 and not any(verdicts.values()):
        [only] = tables
        words = [*summarise(only), *standing(only), *not_learned(only)]
        rows = [Text(line) for line in dict.fromkeys(words)]
    for row in rows or brief(tables, verdicts, console.width):
        console.print(row, soft_wrap=True)

    measured = [table for table in tables if is_measured(table)]
    write_figures(outputs, [t for t in measured if not is_drawn(outputs, t)], faults)
    whole = not faults

    rest = [name for name in newest(outputs) if name not in experiments]
    others = collect(outputs, rest, faults) if rest else []
    verdicts = {**judge(outputs, others, faults), **verdicts}
    every = [table for table in (*tables, *others) if table.name in verdicts]
    page = write_report(outputs, every, verdicts, faults=faults)
    for fault in dict.fromkeys(
        map(str, faults)
    ):  # a figure may have failed again in the page
        console.print(Text(sanitize(fault, 2000)), soft_wrap=True)
    for note in _in_wandb(tables):
        console.print(Text(note), soft_wrap=True)

    figures = outputs / "figures"
    drawn = [figures / f"{stem(t.name)}.png" for t in measured if is_drawn(outputs, t)]
    files = [f"  {relative_path(path)}" for path in (*drawn, outputs / "tables")]
    heading = "\nFigures (also as .pdf and .svg) and tables:" if drawn else "\nTables:"
    for line in (
        heading,
        *files,
        *_next_steps(outputs, page, tables, others=bool(rest)),
    ):
        console.print(Text(line), soft_wrap=True)
    return whole


def _in_wandb(tables: Sequence[Table]) -> Iterator[str]:
    """Yield a note for each experiment that uses runs of another experiment's W&B group."""
    for table in tables:
        mirrored = [one for one in table.files.values() if _is_mirrored(one)]
        groups = Counter(str(one.names.get("experiment")) for one in mirrored)
        own = groups.pop(table.name, 0)
        if groups:
            counts = [f"{count} in the group {name}" for name, count in groups.items()]
            of = f"{own} of its {plural(len(mirrored), 'run')} in the group of its name"
            where = f"{of}, {' and '.join(counts)}, which planned them first"
            name = table.name
            tag = f"All have the tag {name} after {as_typed('dashboard')} {name}."
            yield sanitize(f"{name} in Weights & Biases: {where}. {tag}", 1000)


def _is_mirrored(files: RunFiles) -> bool:
    """Return whether a run is mirrored to Weights & Biases."""
    return bool(files.config.get("logger.name") == "wandb")


def _next_steps(
    outputs: Path, page: Path, tables: Sequence[Table], *, others: bool
) -> Iterator[str]:
    """Yield lines that suggest next steps after a sweep, each with its path or command.

    `tables`: those of the sweep. `others`: whether the outputs folder has other experiments;
    commands then name the experiments of the sweep.
    """
    where = relative_path(outputs)
    words = [table.name for table in tables] if others else []
    if where != "outputs":
        words += ["--outputs", where]
    options = shlex.join(words)
    wandb = outputs / "wandb"
    offline = {path.name.split("-", 3)[-1] for path in wandb.glob("offline-run-*")}
    files = {run: own for table in tables for run, own in table.files.items()}

    yield "\nNext:"
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
    """Print which runs are not done, and why. `labels` are the names of runs for people."""
    unfinished = [s for s in schedule.states.values() if s.phase is not Phase.DONE]
    if unfinished:
        verb = "is" if len(unfinished) == 1 else "are"
        words = f"{len(unfinished)} of {plural(len(labels), 'run')} {verb} not done:"
        console.print(Text(words, style="bold red"))
    if schedule.breaker.tripped:
        waiting = sum(state.phase is Phase.WAITING for state in unfinished)
        verb = "was" if waiting == 1 else "were"
        left = f"{waiting} {verb} not started" if waiting else "No more runs start"
        console.print(Text(f"  {left}: {schedule.breaker.tripped}"), soft_wrap=True)
    for state in (state for state in unfinished if state.phase is not Phase.WAITING):
        run = schedule.store.run(state.job.run)
        status = run.status()
        log = run.path / "attempts" / f"{status.attempt:04d}" / "log.txt"
        where = f", log: {relative_path(log)}" if status.attempt > state.before else ""
        console.print(
            Text(f"  {labels[run.id]}: {state.reason}{where}"), soft_wrap=True
        )


def print_warnings(console: Console, schedule: Schedule) -> None:
    """Print the warnings of done runs. Equal warnings share a line with their number."""
    done = [run for run, state in schedule.states.items() if state.phase is Phase.DONE]
    last = [
        attempt for run in done for attempt in schedule.store.run(run).attempts()[-1:]
    ]
    for words, count in Counter(attempt.warning() for attempt in last).items():
        if words:
            line = sanitize(f"{count} of {plural(len(done), 'run')}: {words}.", 400)
            console.print(Text(line), soft_wrap=True)


def relative_path(path: Path) -> str:
    """Return a path relative to the working directory, or `path` itself if it lies elsewhere."""
    try:
        return str(path.relative_to(Path.cwd()))
    except (OSError, ValueError):  # the working directory was deleted, or is elsewhere
        return str(path)
