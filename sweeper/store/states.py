"""The states of a run, and the words that say why it is in one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple

from sweeper.store.attempts import Cause
from sweeper.store.errors import shown


class State(StrEnum):
    """Where a run stands; derived from its directory, never stored."""

    NEW = "new"
    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    DONE = "done"


@dataclass(frozen=True)
class Status:
    """The state of a run, the reason in words, its newest attempt (0: none), the heartbeat of that
    and why it ended.

    Of a done run: the attempt that finished, no heartbeat, and the seconds it trained.
    """

    state: State
    reason: str
    attempt: int
    heartbeat: dict[str, Any] | None = None
    cause: Cause | None = None
    seconds: float | None = None


class Taken(NamedTuple):
    """Seconds of a run: in training steps, and of a process that trains it beside them."""

    training: float
    beside: float


def running(number: int, heartbeat: dict[str, Any] | None) -> Status:
    """The status while attempt `number` lives."""
    return Status(
        State.RUNNING, f"running{_progress(heartbeat)} (attempt {number})", number, heartbeat
    )


def ended(
    number: int, exit_reason: Mapping[str, Any] | None, heartbeat: dict[str, Any] | None
) -> Status:
    """The status after attempt `number` ended without a result; `exit_reason` is its exit."""
    state, cause = State.FAILED, _cause(exit_reason)
    if exit_reason is None:
        state, what = State.INTERRUPTED, f"dead without a word{_progress(heartbeat)}"
    elif cause is Cause.INTERRUPTED:
        state, what = State.INTERRUPTED, f"interrupted{_progress(heartbeat)}"
    elif cause is Cause.NO_RESULT:
        what = "no_result: it says that it finished, but published no result"
    else:
        message = str(exit_reason.get("message") or "no message").strip()
        what = f"{shown(exit_reason['cause'])}: {shown(message)}"
    return Status(state, f"{what} (attempt {number})", number, heartbeat, cause)


def _cause(exit_reason: Mapping[str, Any] | None) -> Cause:
    if exit_reason is None:
        return Cause.KILLED
    if exit_reason["cause"] == Cause.DONE:
        return Cause.NO_RESULT
    known = exit_reason["cause"] in Cause.__members__.values()
    return Cause(exit_reason["cause"]) if known else Cause.CRASH


def _progress(heartbeat: Mapping[str, Any] | None) -> str:
    if not heartbeat or "step" not in heartbeat:
        return " before its first step"
    of = f" of {shown(heartbeat['steps'])}" if "steps" in heartbeat else ""
    return f" at step {shown(heartbeat['step'])}{of}"
