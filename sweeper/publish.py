"""The results of a sweep in the terminal: tables, verdicts, and the files made from records."""

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
from sweeper.results.table import Table, exported, stem
from sweeper.run.schedule import JobState, Phase, Schedule
from sweeper.store.errors import Faults, UserError, as_typed, collect_errors, sanitize
from sweeper.store.numbers import plural
from sweeper.store.plans import newest

PAGE_S = 30.0
PAGE_SHARE = 0.01
OWN_GRID = "-m model.heads=4,8,16 model.head_size=8,32 seed=0,1,2"


class ResultsAsTheyCome(ExitStack):
    """Publishes results while runs train: the page, and the figure of each experiment that is done.

    The page is written at most every PAGE_S seconds, and takes at most PAGE_SHARE of the CPU time
    of the runs. `print_everything` writes the last page and draws the last experiment; it draws no
    figure again whose table is unchanged. `left`: the runs to be trained, by experiment.
    """

    def __init__(
        self, console: Console, outputs: Path, left: Mapping[str, Collection[str]], slots: int
    ) -> None:
        super().__init__()
        self._console, self._outputs, self._slots = console, outputs, slots
        self._left = {name: set(runs) for name, runs in left.items() if runs}
        self._painter = self.enter_context(ThreadPoolExecutor(max_workers=1))
        self._page_due = time.monotonic() + PAGE_S / 3
        self.push(self._end)

    def changed(self, state: JobState | None) -> None:
        """Write the page if it is due; draw the experiments whose last run this is."""
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
            self._console.print(Text(f"{name} is drawn: {relative_path(drawn)}"), soft_wrap=True)

    def write_page(self, refresh_s: float | None = PAGE_S) -> None:
        """Write the page of all experiments; with `refresh_s`, an open page loads itself again."""
        from sweeper.results.report.page import write_report

        began, faults = time.thread_time(), Faults()
        with suppress(UserError, OSError):  # print_everything reports the error
            tables, verdicts = collect(self._outputs, list(newest(self._outputs)), faults), {}
            for table in tables:
                with collect_errors(faults, table.name):
                    verdicts[table.name] = verdicts_on(table)
            shown = [table for table in tables if table.name in verdicts]
            write_report(self._outputs, shown, verdicts, refresh_s=refresh_s, faults=faults)
        pause = (time.thread_time() - began) / PAGE_SHARE / self._slots
        self._page_due = time.monotonic() + max(PAGE_S, pause)

    def _end(self, error: type[BaseException] | None, *_: object) -> None:
        """Write the last page of a sweep that was stopped: nothing writes it again."""
        if error:
            self._painter.shutdown()
            self.write_page(refresh_s=None)


def collect_and_judge(
    outputs: Path,
    experiments: Sequence[str] | None,
    into: Path | None = None,
    faults: Faults | None = None,
) -> tuple[list[Table], Verdicts]:
    """Return the tables of the experiments (all if None), and the verdicts on each by its name.

    Both are written below `outputs`, or below `into`. With `faults`, an experiment that cannot be
    judged is left out and its error collected there.
    """
    tables = collect(outputs, experiments, faults)
    written = write_tables(into or outputs, tables, faults)
    verdicts = judge(into or outputs, written, faults)
    return [table for table in tables if table.name in verdicts], verdicts


def print_tables(
    console: Console, outputs: Path, tables: Sequence[Table], verdicts: Verdicts
) -> list[Path]:
    """Print each table and the verdicts on it; return the files of the tables."""
    for table in tables:
        console.print()
        for line in (*summarise(table), *lines(verdicts[table.name])):
            console.print(Text(line), soft_wrap=True)
    return [exported(outputs, table) for table in tables]


def print_everything(console: Console, outputs: Path, experiments: Sequence[str]) -> bool:
    """Print a line for each verdict of a sweep, and the paths of its figures and of the page.

    A single experiment without claims shows its table. Figures that are not as drawn from
    their table are drawn again, if a run is done; the page shows every experiment ever planned.
    Return whether all records of these experiments could be read, judged and drawn.
    """
    from sweeper.results.figures import is_drawn, is_measured, write_figures
    from sweeper.results.report.page import write_report

    faults = Faults()
    tables, verdicts = collect_and_judge(outputs, experiments, faults=faults)
    console.print()
    only = tables if len(tables) == 1 and not any(verdicts.values()) else []
    rows = [
        Text(line)
        for t in only
        for line in dict.fromkeys([*summarise(t), *standing(t), *not_learned(t)])
    ]
    for row in rows or brief(tables, verdicts, console.width):
        console.print(row, soft_wrap=True)
    measured = [table for table in tables if is_measured(table)]
    write_figures(outputs, [t for t in measured if not is_drawn(outputs, t)], faults)
    own = len(faults)
    rest = [name for name in newest(outputs) if name not in experiments]
    others = collect(outputs, rest, faults) if rest else []
    verdicts = {**judge(outputs, others, faults), **verdicts}
    every = [table for table in (*tables, *others) if table.name in verdicts]
    page = write_report(outputs, every, verdicts, faults=faults)
    for fault in dict.fromkeys(map(str, faults)):  # the page draws a figure that failed once more
        console.print(Text(sanitize(fault, 2000)), soft_wrap=True)
    for note in _in_wandb(tables):
        console.print(Text(note), soft_wrap=True)
    figures = outputs / "figures"
    drawn = [figures / f"{stem(t.name)}.png" for t in measured if is_drawn(outputs, t)]
    files = [f"  {relative_path(path)}" for path in (*drawn, outputs / "tables")]
    heading = "\nFigures (also as .pdf and .svg) and tables:" if drawn else "\nTables:"
    for line in (heading, *files, *_next_steps(outputs, page, tables, others=bool(rest))):
        console.print(Text(line), soft_wrap=True)
    return own == 0


def _in_wandb(tables: Sequence[Table]) -> Iterator[str]:
    """Yield for each experiment where W&B has the runs that other experiments trained first."""
    for table in tables:
        records = [files["record"] for files in table.records.values() if "record" in files]
        mirrored = [one for one in records if one["config"].get("logger.name") == "wandb"]
        groups = Counter(str(one["names"].get("experiment")) for one in mirrored)
        own = groups.pop(table.name, 0)
        if groups:
            others = " and ".join(f"{count} in the group {name}" for name, count in groups.items())
            runs, name = plural(len(mirrored), "run"), table.name
            where = f"{own} of its {runs} in the group of its name, {others}, which trained them"
            tag = f"All have the tag {name} after {as_typed('dashboard')} {name}."
            yield sanitize(f"{name} in Weights & Biases: {where}. {tag}", 1000)


def _next_steps(
    outputs: Path, page: Path, tables: Sequence[Table], *, others: bool
) -> Iterator[str]:
    """Yield what to do after a sweep with these tables, each with the command below it.

    `others`: whether the outputs folder has other experiments, so that commands name those of the
    sweep.
    """
    where = relative_path(outputs)
    named = [table.name for table in tables] if others else []
    words = shlex.join([*named, *([] if where == "outputs" else ["--outputs", where])])
    files = {run: own for table in tables for run, own in table.records.items()}
    records = [own["record"] for own in files.values() if "record" in own]
    loggers = {record["config"].get("logger.name") for record in records}
    kept = {path.name.split("-", 3)[-1] for path in (outputs / "wandb").glob("offline-run-*")}
    yield "\nNext:"
    yield "  Open the page, with every claim, figure and run:"
    yield f"    {relative_path(page)}"
    if kept & files.keys():
        yield "  Upload the curves to Weights & Biases:"
        yield f"    wandb sync {shlex.quote(relative_path(outputs / 'wandb'))}"
    elif "wandb" in loggers:
        yield "  Save a dashboard in Weights & Biases:"
        yield f"    {as_typed('dashboard')} {words}".rstrip()
    else:
        yield "  Read every number in words:"
        yield f"    {as_typed('collect')} {words}".rstrip()
    if not all(table.is_grid for table in tables):
        yield "  Train a grid of your own:"
        yield f"    {as_typed('sweep')} {OWN_GRID}"


def print_unfinished(console: Console, schedule: Schedule, labels: Mapping[str, str]) -> None:
    """Print which runs are not done, and why; `labels`: names of runs for people."""
    unfinished = [s for s in schedule.states.values() if s.phase is not Phase.DONE]
    if unfinished:
        words = f"{len(unfinished)} of {plural(len(labels), 'run')} not done:"
        console.print(Text(words, style="bold red"))
    if schedule.breaker.tripped:
        waiting = sum(state.phase is Phase.WAITING for state in unfinished)
        verb = "was" if waiting == 1 else "were"
        left = f"{waiting} {verb} not" if waiting else "Nothing more is"
        console.print(Text(f"  {left} started: {schedule.breaker.tripped}"), soft_wrap=True)
    for state in (state for state in unfinished if state.phase is not Phase.WAITING):
        run = schedule.store.run(state.job.run)
        status = run.status()
        log = run.path / "attempts" / f"{status.attempt:04d}" / "log.txt"
        where = f", log: {relative_path(log)}" if status.attempt > state.before else ""
        console.print(Text(f"  {labels[run.id]}: {state.reason}{where}"), soft_wrap=True)


def print_warnings(console: Console, schedule: Schedule) -> None:
    """Print the warnings of finished runs; equal warnings share a line."""
    done = [run for run, state in schedule.states.items() if state.phase is Phase.DONE]
    last = [attempt for run in done for attempt in schedule.store.run(run).attempts()[-1:]]
    for words, count in Counter(attempt.warning() for attempt in last).items():
        if words:
            line = sanitize(f"{count} of {plural(len(done), 'run')}: {words}.", 400)
            console.print(Text(line), soft_wrap=True)


def relative_path(path: Path) -> str:
    """Return a path relative to the working directory, if it lies below."""
    try:
        return str(path.relative_to(Path.cwd()))
    except (OSError, ValueError):  # the working directory was deleted, or is elsewhere
        return str(path)
