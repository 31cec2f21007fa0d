"""Find out whether the runs of a table were trained with different code."""

from collections import Counter

from sweeper.results.table import MixedCode, Table
from sweeper.store.changes import State, TrainedCode
from sweeper.store.code import differing


def mixed_code(table: Table, trained: TrainedCode) -> MixedCode | None:
    """Return how the code of a table's finished runs differs; None if that is unknown.

    Two runs have different code if they depend on the same file and their versions of it differ.
    """
    # Compare the digests in attempt.json first. If they are equal, the copies of the code in
    # outputs/code need not be compared.
    attempts = [one for files in table.files.values() for one in files.attempts]
    parts = [one.get("code_parts", {}) for one in attempts]
    if all(parts) and not differing(parts):
        return MixedCode({}, ())

    states: dict[str, list[State]] = {}
    all_known = True
    for run, files in table.files.items():
        if files.attempts:
            own = trained.states(files.sections, files.attempts)
            known = [state for state in own if state is not None]
            if len(known) == len(own):
                states[run] = known
            else:
                all_known = False
    apart = differing([state for own in states.values() for state in own])
    if not apart:
        return MixedCode({}, ()) if all_known else None

    revisions = {row["run"]: str(row.get("code")) for row in table.rows}
    # Count only runs that depend on a file that changed between runs. The results of other runs do
    # not depend on the revision.
    groups = Counter(
        revisions[run]
        for run, own in states.items()
        if any(file in state for state in own for file in apart)
    )
    return MixedCode(dict(groups), apart)
