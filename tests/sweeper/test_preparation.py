"""Data are prepared before anything trains, by processes that outlive nothing."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from sweeper.store.errors import UserError
from sweeper.store.runs import RunStore
from sweeper.train import prepare

CONFIGS = {"a": {"data": {"sentences": 503}, "task": {"name": "lm1b"}}}


class Process:
    """Stands for the model process: jobs that end with these codes and say this."""

    def __init__(self, *codes: int | type[BaseException], says: str = "") -> None:
        self.codes, self.says = list(codes), says
        self.forked, self.signalled = 0, list[tuple[int, int]]()

    def fork(self, target: str, argument: Path, *, log: Path, **_: Any) -> int:
        assert (target, argument.name) == ("prepare", "a")
        with log.open("a") as file:
            file.write(self.says)
        self.forked += 1
        return self.forked

    def exit_code(self, job: int) -> int:
        code = self.codes[job - 1]
        if not isinstance(code, int):
            raise code
        return code

    def signal(self, job: int, number: int) -> None:
        self.signalled.append((job, number))


def prepared(outputs: Path, process: Process) -> Process:
    store, known = RunStore(outputs), set[str]()
    prepare(Console(quiet=True), store, process, CONFIGS, known)  # type: ignore[arg-type]
    return process


def test_one_that_was_killed_is_tried_once_more(tmp_path):
    assert prepared(tmp_path, Process(-9, 0)).forked == 2
    with pytest.raises(UserError, match=r"its process was killed \(code -9\)"):
        prepared(tmp_path, Process(-9, -9))


def test_the_last_line_of_its_log_says_why_it_failed(tmp_path):
    process = Process(1, says="first\nno text in \x1b[31mred\n\n")
    with pytest.raises(UserError, match=r"prepared: no text in \\x1b\[31mred \(log: "):
        prepared(tmp_path, process)
    assert process.forked == 1


def test_it_ends_with_the_sweep_that_waits_for_it(tmp_path):
    process = Process(KeyboardInterrupt)
    with pytest.raises(KeyboardInterrupt):
        prepared(tmp_path, process)
    assert process.signalled == [(1, signal.SIGKILL)]


@pytest.mark.parametrize("planted", ["link", "pipe"])
def test_a_log_that_was_planted_is_put_aside(planted, tmp_path):
    log, notes = tmp_path / "data" / "prepare.log", tmp_path / "notes"
    log.parent.mkdir()
    notes.write_text("a stranger's")
    if planted == "link":
        log.symlink_to(notes)
    else:
        os.mkfifo(log)
    prepared(tmp_path, Process(0, says="done"))
    assert (log.read_text(), notes.read_text()) == ("done", "a stranger's")
