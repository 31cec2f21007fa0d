"""The code that trained the runs of a table, where it is not the same for all."""

from collections import Counter
from collections.abc import Sequence

from sweeper.results.table import MixedCode, Table
from sweeper.store.changes import State, TrainedCode
from sweeper.store.code import differing
from sweeper.store.identity import digest_of

_NAMES = ("task.name", "model.name", "model.attention.name", "optimizer.name")


def mixed_code(table: Table, trained: TrainedCode) -> MixedCode | None:
    """Return how the code of a table's finished runs differs; None if that is unknown.

    Two runs are of different code if a file on which both depend differs.
    """
    states, unknown = dict[str, Sequence[State]](), False
    for run, files in table.records.items():
        attempts = files.get("attempts", ())
        config = files.get("record", {}).get("config", {})
        if not attempts:
            continue
        task, architecture, variant, optimizer = (config.get(name) for name in _NAMES)
        names_of_run = {
            "task": {"name": task},
            "model": {"name": architecture, "attention": {"name": variant}},
            "optimizer": {"name": optimizer} if optimizer else {},
        }
        found = trained.states(names_of_run, attempts)
        known = [state for state in found if state is not None]
        unknown |= len(known) < len(found)
        if len(known) == len(found):
            states[run] = known
    apart = differing([state for own in states.values() for state in own])
    if not apart:
        return None if unknown else MixedCode({}, ())
    revisions = {row["run"]: str(row.get("code")) for row in table.rows}
    counts: Counter[str] = Counter()
    names: dict[str, str] = {}  # a revision, by the digest of its code
    for run, own in states.items():
        code = [[state[file] for file in apart if file in state] for state in own]
        if not any(code):
            continue  # it depends on no file that differs
        digest = digest_of(code)
        counts[digest] += 1
        names.setdefault(digest, revisions[run])
    several = Counter(names.values())
    groups = {
        f"{name} ({digest[:8]})" if several[name] > 1 else name: counts[digest]
        for digest, name in names.items()
    }
    return MixedCode(groups, apart)
