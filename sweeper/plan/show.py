"""Print a plan as a table of points with sizes and states. Print totals below the table."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from rich.console import Console
from rich.table import Table
from rich.text import Text

from sweeper.plan.plan import Plan, PlannedPoint
from sweeper.store import errors
from sweeper.store.numbers import plural, short
from sweeper.store.plans import describe_values
from sweeper.store.runs import State, Status

_SIZE_COLUMNS = {
    "non-emb.": "params_non_embedding",
    "FLOPs/token": "flops_per_token",
    "cache B/token": "cache_bytes_per_token",
}
_MANY = 100  # a plan with more points is not listed in full
_LISTED = 40  # list this many points of a plan with more than `_MANY`
REAL_TEXT = (
    "cpu",
    "night",
    "gpu",
    "paper",
)  # scales whose models are sized for real text
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
        statuses: the status of each run, by its id.
        verbose: whether to print every point of a large plan.
    """
    by_experiment = {
        name: [
            list(seeds)
            for _, seeds in groupby(
                same, key=lambda p: (p.arm, p.task, describe_values(p.values))
            )
        ]
        for name, same in groupby(plan.points, key=lambda p: p.experiment)
    }
    every = sum(map(len, by_experiment.values()))
    many = not verbose and every > _MANY
    for name, rows in by_experiment.items():
        title = f"{name} ({plan.scale}): {plan.experiments[name].title}"
        console.print(Text(errors.sanitize(title), style="bold"))
        shown = rows[: max(_LISTED // len(by_experiment), 1)] if many else rows
        table = _table(shown, plan, statuses)
        room = console.options.update(width=_ANY_WIDTH)
        if console.measure(table, options=room).maximum > console.width:
            table = _table(shown, plan, statuses, narrow=True)
        console.print(table)
        if len(shown) < len(rows):
            console.print(
                f"... and {len(rows) - len(shown)} more points (hydra.verbose=true lists all)"
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
    """Return a warning if the plan's scale does not suit the training text of `runs`, else ""."""
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
    *,
    narrow: bool = False,
) -> Table:
    """Return the table of points. Each entry of `rows` has all seeds of one point.

    If `narrow` is True, show only the size `params`, and write the target of a match below its
    point.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("arm", overflow="fold")
    table.add_column("task", no_wrap=True)
    table.add_column("point", overflow="fold")
    sizes = [plan.runs[seeds[0].run].size for seeds in rows]
    columns = {
        word: key
        for word, key in _SIZE_COLUMNS.items()
        if all(key in size for size in sizes)
    }
    for column in ("params", *(() if narrow else columns)):
        table.add_column(column, justify="right", no_wrap=True)
    if not narrow:
        table.add_column("matched to", overflow="fold")
    table.add_column("state", overflow="fold")
    owner: dict[str, str] = {}
    for point in plan.points:
        owner.setdefault(point.run, f"{point.experiment}/{point.arm}")
    for seeds in rows:
        first = seeds[0]
        size, matched = plan.runs[first.run].size, first.matched
        setting = _literal(describe_values(first.values) or "as configured")
        match = ""
        if matched:
            match = f"{matched.to} ({matched.count} {matched.error:+z.2%})"
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
            Text(f"{setting}\n  matched to {_literal(match)}")
            if match and narrow
            else setting,
            short(size["params_total"]),
            *(() if narrow else (short(size[key]) for key in columns.values())),
            *(() if narrow else (_literal(match),)),
            _literal("; ".join(f"{n} {state}" for state, n in states.items())),
        )
    return table


def _literal(text: str) -> Text:
    """Return `text` for Rich to print literally, without markup or terminal codes."""
    return Text(errors.sanitize(text, 1000))
