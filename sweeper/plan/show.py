"""Print a plan: a table of its points with sizes and states, and totals below."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sweeper.plan.plan import Plan, PlannedPoint
from sweeper.store import errors
from sweeper.store.files import canonical
from sweeper.store.numbers import plural, short
from sweeper.store.plans import describe_values
from sweeper.store.runs import State, Status

_SIZE_COLUMNS = {
    "non-emb.": "params_non_embedding",
    "FLOPs/token": "flops_per_token",
    "cache B/token": "cache_bytes_per_token",
}
_MANY = 100  # if a plan has more points, list only _LISTED of them
_LISTED = 40
# The scales whose models are sized for real text.
REAL_TEXT = (
    "cpu",
    "night",
    "gpu",
    "paper",
)
_ANY_WIDTH = 10_000  # characters; wider than any terminal


def print_plan(
    console: Console,
    plan: Plan,
    statuses: Mapping[str, Status],
    *,
    verbose: bool = False,
) -> None:
    """Print the points of a plan and its totals. All seeds of a point share one row.

    Args:
        console: where to print.
        plan: the plan.
        statuses: the status of each run, by run id.
        verbose: whether to list every point, even if there are many.
    """
    by_experiment: dict[str, dict[str, list[PlannedPoint]]] = defaultdict(dict)
    for point in plan.points:
        setting = canonical([point.arm, point.task, point.values])
        by_experiment[point.experiment].setdefault(setting, []).append(point)
    every = sum(map(len, by_experiment.values()))
    many = not verbose and every > _MANY
    for name, by_setting in by_experiment.items():
        rows = [*by_setting.values()]
        title = f"{name} ({plan.scale}): {plan.experiments[name].title}"
        console.print(Text(errors.sanitize(title), style="bold"))
        shown = rows[: max(_LISTED // len(by_experiment), 1)] if many else rows
        table = _table(shown, plan, statuses, _SIZE_COLUMNS)
        room = console.options.update(width=_ANY_WIDTH)
        if console.measure(table, options=room).maximum > console.width:
            table = _table(shown, plan, statuses, {})
        console.print(table)
        if len(shown) < len(rows):
            console.print(
                f"... and {plural(len(rows) - len(shown), 'more point')} "
                "(hydra.verbose=true lists all)"
            )
    used = sum(
        uses > 1 for uses in Counter(point.run for point in plan.points).values()
    )
    shared = f", {used} of them shared by several points" if used else ""
    states = Counter(str(statuses[run].state) for run in plan.runs)
    by_state = ", ".join(f"{n} {state}" for state, n in sorted(states.items()))
    total = f"{plural(every, 'point')}, {plural(len(plan.runs), 'run')}"
    console.print(f"{total}{shared}: {by_state}.")
    new = [run for run in plan.runs if statuses[run].state is not State.DONE]
    for words in (*plan.notes, unfit_scale(plan, new)):
        if words:
            console.print(
                Text(errors.sanitize(words, 1000), style="bold"), soft_wrap=True
            )


def unfit_scale(plan: Plan, runs: Iterable[str]) -> str:
    """Return a warning if the scale of a plan does not suit the texts of `runs`, else ""."""
    configs = (plan.runs[run].config for run in runs)
    on_text = (config for config in configs if "vocabulary_size" in config["task"])
    generated = [config["data"]["source"] == "sample" for config in on_text]
    if plan.scale in REAL_TEXT and any(generated):
        return (
            f"scale={plan.scale} is for real text, but {plural(sum(generated), 'run')} would train "
            "on the generated text; add data=local data.root=FOLDER, or leave the scale out."
        )
    if plan.scale == "demo" and not all(generated):
        return (
            "scale=demo is for the generated text; its models hardly learn from real text. Add "
            "scale=cpu."
        )
    return ""


def _table(
    rows: Sequence[Sequence[PlannedPoint]],
    plan: Plan,
    statuses: Mapping[str, Status],
    sizes: Mapping[str, str],
) -> Table:
    """Return the table of points.

    Args:
        rows: one entry for each row, with a `PlannedPoint` for each seed.
        plan: the plan.
        statuses: the status of each run, by run id.
        sizes: maps headings of further columns to the size in the column, such as "FLOPs/token" to
            "flops_per_token". Leave out a column if a row lacks the size.
    """
    first_runs = [plan.runs[seeds[0].run] for seeds in rows]
    columns = {"params": "params_total"} | {
        word: key
        for word, key in sizes.items()
        if all(key in run.size for run in first_runs)
    }
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("arm", overflow="fold")
    table.add_column("task", no_wrap=True)
    table.add_column("point", overflow="fold")
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("state", overflow="fold")
    owner: dict[str, str] = {}
    for point in plan.points:
        owner.setdefault(point.run, f"{point.experiment}/{point.arm}")
    for run, seeds in zip(first_runs, rows, strict=True):
        first = seeds[0]
        setting = _literal(describe_values(first.values) or "as configured")
        if matched := first.matched:
            match = f"{matched.to} ({matched.count} {matched.error:+z.2%})"
            setting.append(f"\n  matched to {errors.sanitize(match, 1000)}")
        states: Counter[str] = Counter()
        for point in seeds:
            status = statuses[point.run]
            state = str(status.state)
            if status.state in (State.FAILED, State.INTERRUPTED):
                state += f" ({status.reason})"
            if owner[point.run] != f"{point.experiment}/{point.arm}":
                state += f", shared with {owner[point.run]}"
            states[state] += 1
        table.add_row(
            _literal(first.arm),
            first.task,
            setting,
            *(short(run.size[key]) for key in columns.values()),
            _literal("; ".join(f"{n} {state}" for state, n in states.items())),
        )
    return table


def _literal(text: str) -> Text:
    """Return a text that rich prints without interpreting markup or terminal codes."""
    return Text(errors.sanitize(text, 1000))
