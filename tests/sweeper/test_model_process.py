"""The model process starts early, is told without waiting, and outlives no command line in vain."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from sweeper.run.backends.local import LocalBackend
from sweeper.size_server import SizeServer


def started(process: SizeServer) -> subprocess.Popen[str]:
    process.start()
    assert process._process is not None
    return process._process


def test_one_that_was_asked_nothing_is_ended_at_once():
    process = SizeServer()
    server = started(process)
    process.close()
    assert server.wait(timeout=60) == -signal.SIGTERM


def test_one_that_was_started_early_answers_and_ends_by_itself():
    process = SizeServer()
    server = started(process)
    process.tell({"op": "no such question"})
    [answer] = process.ask([{"op": "nor this"}])
    assert answer["error"].startswith("op=nor this: expected size")
    assert process._process is server
    process.close()
    assert server.wait(timeout=60) == 0


def test_one_that_is_gone_is_told_nothing_and_another_answers():
    with SizeServer() as process:
        server = started(process)
        server.kill()
        server.wait(timeout=60)
        process.tell({"op": "preload"})
        [answer] = process.ask([{"op": "no such question"}])
        assert "error" in answer


def test_one_that_was_stopped_is_continued_when_it_is_waited_for():
    with SizeServer() as process:
        server = started(process)
        process.ask([{"op": "no such question"}])
        server.send_signal(signal.SIGSTOP)
        [answer] = process.ask([{"op": "nor this"}])
        assert answer["error"].startswith("op=nor this")


def test_one_whose_sweep_has_nowhere_to_complain_has_somewhere(monkeypatch):
    monkeypatch.setattr("sys.stderr", None)  # as Python has it where 2 is closed
    with SizeServer() as process:
        assert Path(f"/proc/{started(process).pid}/fd/2").readlink() == Path(os.devnull)


class Listener:
    """Stands for a model process and writes down what reaches it."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def tell(self, question: dict[str, Any]) -> None:
        self.heard.append(f"{question['op']} {question['logger']}")

    def fork(self, target: str, argument: Path, **_: Any) -> int:
        self.heard.append(f"fork {argument.name}")
        return len(self.heard)


@pytest.mark.parametrize("early", [True, False], ids=["asked to", "unasked"])
def test_jobs_are_imported_for_once_and_before_the_first(early):
    listener = Listener()
    backend = LocalBackend(listener, ["", ""], 0, "none")  # type: ignore[arg-type]
    if early:
        backend.warm()
    for slot, name in enumerate(("a", "b")):
        backend.start(Path(name), slot)
    assert listener.heard == ["preload none", "fork a", "fork b"]
