"""Differences in code between the runs of a table."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from sweeper.results.table import Data, MixedCode, Row, Table
from sweeper.store.changes import State, TrainedCode
from sweeper.store.code import differing


def code_apart(rows: Iterable[Row]) -> list[str] | None:
    """Return the parts of the code that differ between the rows' runs.

    Return None if the code of a run is unknown. Code that none of these runs uses does not count.
    """
    trained = [row for row in rows if row.get("code")]
    states = [state for row in trained for state in row.get("code_parts") or [{}]]
    return differing(states) if all(states) else None


def mixed_code(table: Table, trained: TrainedCode) -> MixedCode | None:
    """Return how the code of a table's finished runs differs; None if that is unknown.

    The code of two runs is different if a file that both depend on differs.
    """
    states: dict[str, list[State]] = {}
    all_known = True
    for run, files in table.files.items():
        if files.attempts:
            own = trained.states(_named_code(files.config), files.attempts)
            known = [state for state in own if state is not None]
            if len(known) == len(own):
                states[run] = known
            else:
                all_known = False
    apart = differing([state for own in states.values() for state in own])
    if not apart:
        return MixedCode({}, ()) if all_known else None

    revisions = {row["run"]: str(row.get("code")) for row in table.rows}
    # Do not count a run that depends on no differing file. Its code is the same in all revisions.
    groups = Counter(
        revisions[run]
        for run, own in states.items()
        if any(file in state for state in own for file in apart)
    )
    return MixedCode(dict(groups), apart)


def _named_code(config: Data) -> dict[str, Any]:
    """Return a nested config with only the names of the task, model, attention and optimizer.

    These names select the files that a run depends on.
    """
    variant = {"name": config.get("model.attention.name")}
    optimizer = config.get("optimizer.name")
    return {
        "task": {"name": config.get("task.name")},
        "model": {"name": config.get("model.name"), "attention": variant},
        "optimizer": {"name": optimizer} if optimizer else {},
    }
