"""The display of a schedule: in a log and in a terminal."""

import io
import re
from types import SimpleNamespace

import pytest
from rich.console import Console

from sweeper.plan.show import UNLIMITED_WIDTH
from sweeper.run import progress
from sweeper.run.backend import Job
from sweeper.run.progress import Display, RunLabel, TimeLeft
from sweeper.run.schedule import JobState, Phase
from sweeper.store.runs import RunStore, Taken

LABEL = "an experiment with a long name/" + "an-arm-whose-name-is-longer-than-a-line-" * 5 + "end"


class Watched:
    """Two runs, shown on a console that is or is not a terminal."""

    def __init__(self, outputs, *, terminal):
        store = RunStore(outputs)
        self.names = ["lm1b-s0-a", "lm1b-s1-b"]
        for name in self.names:
            store.freeze({"id": name, "config": {}, "size": {}, "names": {}})
        backend = SimpleNamespace(slots=1, note="", begun=lambda handle: True)
        self.schedule = SimpleNamespace(
            states={name: JobState(Job(name, 1.0)) for name in self.names},
            backend=backend,
            breaker=SimpleNamespace(tripped=""),
            stopping=False,
        )
        steps = dict.fromkeys(self.names, 100)
        left = TimeLeft(store, steps, lambda run: Taken(50.0, 10.0), lambda *measured: None)
        width = 120 if terminal else UNLIMITED_WIDTH
        self.file = io.StringIO()
        console = Console(file=self.file, width=width, force_terminal=terminal)
        labels = {name: RunLabel(LABEL, "loss") for name in self.names}
        self.display = Display(console, store, labels, left)

    def phase(self, name, phase, reason=""):
        state = self.schedule.states[name]
        state.phase, state.handle, state.reason = phase, 1, reason
        self.display.changed(self.schedule, state)

    def lines(self):
        return self.file.getvalue().splitlines()


@pytest.fixture
def log(tmp_path):
    return Watched(tmp_path, terminal=False)


def test_a_log_has_one_unbroken_line_for_each_run_that_ended(log):
    first, second = log.names
    log.phase(first, Phase.RUNNING)
    log.display.changed(log.schedule, None)
    assert log.lines() == []
    log.phase(first, Phase.DONE)
    log.phase(second, Phase.RUNNING)
    log.phase(second, Phase.FAILED, "a reason")
    [done, failed] = log.lines()
    assert done.startswith(f"[1/2] done     {LABEL}")
    assert failed == f"[1/2] failed   {LABEL}  a reason"


def test_a_log_that_is_silent_for_a_minute_has_a_heartbeat(log, monkeypatch):
    now = 1000.0
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: now))
    log.phase(log.names[0], Phase.RUNNING)
    log.phase(log.names[0], Phase.DONE)
    now += progress.HEARTBEAT_S - 1
    log.display.changed(log.schedule, None)
    assert len(log.lines()) == 1
    now += 1
    log.display.changed(log.schedule, None)
    log.display.changed(log.schedule, None)
    [_, heartbeat] = log.lines()
    assert heartbeat.startswith("1 waiting · 1 done · ")


def test_a_terminal_shows_a_bar_and_a_row_for_each_run_that_trains(tmp_path):
    shown = Watched(tmp_path, terminal=True)
    with shown.display:
        shown.phase(shown.names[0], Phase.DONE)
        shown.phase(shown.names[1], Phase.RUNNING)
    plain = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", shown.file.getvalue())
    assert "━" * 10 in plain
    assert "1 running · 1 done · " in plain
    cut = {line.partition("…")[0].strip() for line in plain.splitlines() if "…" in line}
    names = {line.removeprefix("[1/2] done     ") for line in cut}
    assert len(names) == 2, "that of the run which is done, and that of the row"
    assert all(len(name) > 40 for name in names)
    assert all(LABEL.startswith(name) for name in names), "a name is cut at the edge, not broken"
    assert all(len(line.rstrip()) <= 120 for line in plain.splitlines())
    assert "about" not in plain, "nothing was measured yet"
    assert "step" in plain
    assert "starting" in plain
