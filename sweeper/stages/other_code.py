"""Detect runs that were trained with other code, that is, with another version of the code.

A sweep prints how many such runs it has. With `hydra.sweeper.retrain=changed`, it trains them
again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from sweeper.plan.plan import Plan
from sweeper.store.attempts import Cause
from sweeper.store.changes import Changes
from sweeper.store.errors import UserError, sanitize
from sweeper.store.numbers import plural
from sweeper.store.runs import RunStore, State, Status, lineage

RETRAIN = "hydra.sweeper.retrain=changed"
ACCEPT = "hydra.sweeper.accept_mixed_code=true"
_NAMED = 3  # a message names at most this many changed files
_ENDED = (State.DONE, State.INTERRUPTED, State.FAILED)


@dataclass(frozen=True)
class OtherCode:
    """The runs of a plan whose training began or ended with other code.

    Attributes:
        finished: the number of finished runs of the plan, with any code.
        changed: the finished runs that other code trained. Each run id maps to the files that have
            changed since.
        begun: the unfinished runs that other code trained up to a checkpoint or until they
            diverged. Each run id maps to the files that have changed since.
        unknown: the finished runs whose copy of the code was deleted, so that they cannot be
            compared.
    """

    finished: int
    changed: Mapping[str, Sequence[str]]
    begun: Mapping[str, Sequence[str]]
    unknown: Sequence[str]

    @property
    def again(self) -> set[str]:
        """The ids of the runs that `hydra.sweeper.retrain=changed` trains again from step 0."""
        return {*self.changed, *self.begun}

    def words(self) -> str:
        """Return a phrase such as "Other code trained 2 of 5 finished runs (job.py changed)"."""
        runs = f"{len(self.changed)} of {plural(self.finished, 'finished run')}"
        return f"Other code trained {runs} ({_files(self.changed)} changed)"


def of_other_code(
    plan: Plan,
    store: RunStore,
    changes: Changes,
    statuses: Mapping[str, Status] | None = None,
) -> OtherCode:
    """Compare the present code with the code that trained each run of a plan.

    A run that started from a parent also counts as trained with other code if its parent was, or if
    the parent has been trained again since then. `statuses` has the status of each run, by run id.
    If it is None, read them from disk.
    """
    statuses = statuses or {run: store.run(run).status() for run in plan.runs}

    @cache
    def files(id: str) -> list[str] | None:
        """Return the files that changed since a run was trained.

        Return [] if none changed or the run has not begun, and None if this is unknown.
        """
        status, parent = statuses[id], plan.runs[id].parent
        if not status.attempt or status.state not in _ENDED:
            return []
        every = [changes.since(store.run(id), status.attempt)]
        if parent:
            every.append(files(parent) if parent in plan.runs else [])
            every.append(_weights_changed(store, id, status.attempt, parent))
        if changed := next(filter(None, every), None):
            return changed
        return None if None in every else []

    done = [run for run in plan.runs if statuses[run].state is State.DONE]
    changed = {run: own for run in plan.runs if (own := files(run))}
    begun = [
        run
        for run in changed.keys() - done
        if store.run(run).checkpoints() or statuses[run].cause is Cause.NAN
    ]
    return OtherCode(
        finished=len(done),
        changed={run: changed[run] for run in done if run in changed},
        begun={run: changed[run] for run in begun},
        unknown=[run for run in done if files(run) is None],
    )


def _weights_changed(store: RunStore, id: str, attempt: int, parent: str) -> list[str]:
    """Return ["the weights of PARENT"] if these have changed since the run `id` started from them.

    Return [] if the weights have not changed, or if they are unknown. `attempt` is the number of
    the last attempt of the run `id`.
    """
    present = store.run(parent).result()
    if not present:
        return []
    first, *_ = lineage(store.run(id), attempt)
    began = first.get("parent_weights")  # older attempts lack this key
    changed = began and began != present.weights_sha256
    return [f"the weights of {parent}"] if changed else []


def in_words(
    found: OtherCode, *, retrain: bool = False, accepted: bool = False
) -> Iterator[str]:
    """Yield sentences about runs of other code, to print before the plan.

    Args:
        found: the runs of other code.
        retrain: whether these runs will be trained again.
        accepted: whether claims may be judged on runs of different code.
    """
    if found.changed:
        what = "Their results are kept, but cannot decide a claim together with new runs. To train "
        what += f"these runs again, add {RETRAIN}"
        if accepted:
            what = "Their results are kept, and claims are judged on the mixture."
        if retrain:
            what = "They are trained again. Their old results stay in runs/<id>/attempts/<number>."
        yield f"{found.words()}. {what}"
    if found.begun:
        how = (
            "start again from step 0"
            if retrain
            else "continue from the last checkpoint, if there is one"
        )
        runs = plural(len(found.begun), "unfinished run")
        yield f"{_files(found.begun)} changed: {runs} will {how}."
    if found.unknown:
        runs = plural(len(found.unknown), "finished run")
        yield (
            f"outputs/code lacks the code that trained {runs}, so that code cannot be compared "
            "with the present code. Results are kept."
        )


def refuse_mixing(found: OtherCode) -> None:
    """Raise UserError if other code trained finished runs, since new runs would mix with them."""
    if found.changed:
        raise UserError(
            f"Runs of different code cannot decide a claim. {found.words()}. Train these runs "
            f"again with {RETRAIN}, or allow the mixture with {ACCEPT}."
        )


def _files(changed: Mapping[str, Sequence[str]]) -> str:
    """Return the names of at most _NAMED changed files, as in "a.py, b.py, c.py and 2 more"."""
    every = sorted({file for own in changed.values() for file in own})
    more = f" and {len(every) - _NAMED} more" if every[_NAMED:] else ""
    return sanitize(", ".join(every[:_NAMED]), 300) + more
