"""Runs that other code trained: the plan names them, and a sweep may train them again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sweeper.plan.plan import Plan
from sweeper.store.changes import Changes
from sweeper.store.errors import UserError, sanitize
from sweeper.store.numbers import plural
from sweeper.store.runs import RunStore, State, Status

RETRAIN = "hydra.sweeper.retrain=changed"
ACCEPT = "hydra.sweeper.accept_mixed_code=true"
_NAMED = 3  # changed files in a line
_ENDED = (State.DONE, State.INTERRUPTED, State.FAILED)


@dataclass(frozen=True)
class OtherCode:
    """The runs of a plan that were trained, or begun, with other code than today's.

    Attributes:
        finished: the number of finished runs of the plan.
        changed: the files that changed since, by finished run.
        begun: the same, by unfinished run that would continue from a checkpoint.
        unknown: the finished runs whose copy of the code is gone.
    """

    finished: int
    changed: Mapping[str, Sequence[str]]
    begun: Mapping[str, Sequence[str]]
    unknown: Sequence[str]

    @property
    def again(self) -> set[str]:
        """The runs that `hydra.sweeper.retrain=changed` trains from step 0."""
        return {*self.changed, *self.begun}

    def words(self) -> str:
        """Return how many finished runs are of other code, and the files that changed."""
        are = "is" if len(self.changed) == 1 else "are"
        runs = f"{len(self.changed)} of {plural(self.finished, 'finished run')}"
        return f"{runs} {are} of other code: {_files(self.changed)} changed"


def of_other_code(
    plan: Plan,
    store: RunStore,
    changes: Changes,
    statuses: Mapping[str, Status] | None = None,
) -> OtherCode:
    """Compare today's code with the code of each run of a plan.

    A run that starts from a run of other code counts as one. `statuses` of the runs are read unless
    they are given.
    """
    found: dict[str, list[str] | None] = {}
    statuses = statuses or {run: store.run(run).status() for run in plan.runs}

    def files(id: str) -> list[str] | None:
        if id not in found:
            status, parent = statuses[id], plan.runs[id].parent
            found[id] = []
            if status.attempt and status.state in _ENDED:
                found[id] = changes.since(store.run(id), status.attempt)
            if parent and parent in plan.runs and status.state is State.DONE:
                found[id] = found[id] or files(parent)
        return found[id]

    done = [run for run in plan.runs if statuses[run].state is State.DONE]
    begun = [run for run in plan.runs if run not in {*done} and files(run)]
    return OtherCode(
        finished=len(done),
        changed={run: changed for run in done if (changed := files(run))},
        begun={run: found[run] or [] for run in begun if store.run(run).checkpoints()},
        unknown=[run for run in done if files(run) is None],
    )


def in_words(found: OtherCode, *, retrain: bool) -> Iterator[str]:
    """Yield the lines on other code that a plan begins with."""
    if found.changed:
        what = f"Kept; beside new runs they decide no claim. Train them again with {RETRAIN}"
        if retrain:
            what = "They are trained again; old results stay in runs/<id>/attempts/<number>."
        yield f"{found.words()}. {what}"
    if found.begun:
        one = len(found.begun) == 1
        verb = "starts anew" if retrain and one else "start anew" if retrain else ""
        verb = (
            verb
            or ("continues" if one else "continue") + " from a checkpoint of other code"
        )
        yield f"{plural(len(found.begun), 'unfinished run')} {verb}: {_files(found.begun)} changed."
    if found.unknown:
        runs = plural(len(found.unknown), "finished run")
        yield f"{runs} may be of other code: its copy in outputs/code is gone. Kept."


def refuse_mixing(found: OtherCode) -> None:
    """Raise UserError if more seeds would not decide a claim, because code would be mixed."""
    if found.changed:
        raise UserError(
            f"hydra.sweeper.decide=true: {found.words()}, so more seeds would mix code and decide "
            f"no claim; train them again with {RETRAIN}, or accept it with {ACCEPT}."
        )


def _files(changed: Mapping[str, Sequence[str]]) -> str:
    every = sorted({file for own in changed.values() for file in own})
    more = f" and {len(every) - _NAMED} more" if every[_NAMED:] else ""
    return sanitize(", ".join(every[:_NAMED]), 300) + more
