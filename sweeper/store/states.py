"""The states of a run, and the words that say why it is in one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

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
    """The state of a run, the reason in words, its newest attempt (0: none), that one's beat and
    why it ended.

    Of a done run: the attempt that finished, no beat, and the seconds it trained.
    """

    state: State
    reason: str
    attempt: int
    beat: dict[str, Any] | None = None
    cause: Cause | None = None
    seconds: float | None = None


def running(number: int, beat: dict[str, Any] | None) -> Status:
    """The status while attempt `number` lives."""
    return Status(State.RUNNING, f"running{_progress(beat)} (attempt {number})", number, beat)


def ended(number: int, last_word: Mapping[str, Any] | None, beat: dict[str, Any] | None) -> Status:
    """The status after attempt `number` ended without a result; `last_word` is its exit."""
    state, cause = State.FAILED, _cause(last_word)
    if last_word is None:
        state, what = State.INTERRUPTED, f"dead without a word{_progress(beat)}"
    elif cause is Cause.INTERRUPTED:
        state, what = State.INTERRUPTED, f"interrupted{_progress(beat)}"
    elif cause is Cause.NO_RESULT:
        what = "no_result: it says that it finished, but published no result"
    else:
        message = str(last_word.get("message") or "no message").strip()
        what = f"{shown(last_word['cause'])}: {shown(message)}"
    return Status(state, f"{what} (attempt {number})", number, beat, cause)


def _cause(last_word: Mapping[str, Any] | None) -> Cause:
    if last_word is None:
        return Cause.KILLED
    if last_word["cause"] == Cause.DONE:
        return Cause.NO_RESULT
    known = last_word["cause"] in Cause.__members__.values()
    return Cause(last_word["cause"]) if known else Cause.CRASH


def _progress(beat: Mapping[str, Any] | None) -> str:
    if not beat or "step" not in beat:
        return " before its first step"
    of = f" of {shown(beat['steps'])}" if "steps" in beat else ""
    return f" at step {shown(beat['step'])}{of}"
