"""Tests of the estimated time left, and of the display of a schedule in a log and a terminal."""

import io
import re
from functools import partial
from unittest.mock import ANY, Mock

import pytest
from rich.console import Console

from sweeper.run.makespan import makespan
from sweeper.run.schedule import Phase
from sweeper.stages import progress
from sweeper.stages.progress import AFTER, PACE_S, Display, TimeLeft
from sweeper.stages.terminal import PIPE_WIDTH
from sweeper.store.runs import Taken

STEPS = 100
WHOLE = Taken(training=50.0, overhead=10.0)


def test_runs_take_turns_in_the_slots_and_the_longest_of_few_decides():
    assert makespan({}, {}, 2) == 0
    assert makespan({}, {"a": (7, None), "b": (5, None), "c": (3, None)}, 2) == 8
    assert makespan({"a": 11}, {"b": (3, None)}, 2) == 11
    assert makespan({"a": 2, "b": 11}, {"c": (3, None), "d": (5, None)}, 2) == 11
    assert makespan({"a": 2, "b": 3, "c": 5}, {"d": (7, None)}, 2) == 9, (
        "another sweep has more"
    )


def test_a_child_starts_after_its_parent_and_no_slot_waits_for_it():
    waiting = {"child": (7, "parent"), "parent": (5, None), "other": (3, None)}
    assert makespan({}, waiting, 2) == 12
    assert makespan({}, waiting, 1) == 15
    assert makespan({"parent": 2}, {"child": (7, "parent")}, 2) == 9
    assert makespan({}, {"child": (7, "of another plan")}, 2) == 7


LABEL = f"an experiment with a long name/{'an-arm-longer-than-a-line-' * 8}end"


class Story:
    """A schedule of runs with the duration `WHOLE` in one slot. Tests set its clock `now`."""

    def __init__(self, tell, store, names):
        self.now, self.store, self.learn = 1000.0, store, Mock()
        self.schedule, _ = tell(names, slots=1)
        self.runs = {name: store.run(name) for name in names}
        self.begin()

    def begin(self):
        """Start to estimate the time left. Tests repeat it after events of an earlier sweep."""
        throughput = Mock(
            knows=lambda run: True,
            expected=lambda run: WHOLE,
            learn=self.learn,
        )
        records = {name: Mock(steps=STEPS) for name in self.runs}
        self.left = TimeLeft(self.store, records, throughput, lambda: self.now)
        self.note = self.left.note

    def show(self, *, terminal):
        """Start to display the runs on a machine that has just booted. Return the output."""
        self.now = 0.0
        self.begin()
        width = 120 if terminal else PIPE_WIDTH
        console = Console(file=io.StringIO(), width=width, force_terminal=terminal)
        labels = dict.fromkeys(self.runs, LABEL)
        self.display = Display(
            console, labels, dict.fromkeys(labels, "loss"), self.left
        )
        self.note = partial(self.display.changed, self.schedule)
        return console.file

    def phase(self, name, phase, handle=7, reason=""):
        state = self.schedule.states[name]
        state.phase, state.handle, state.reason = Phase(phase), handle, reason
        self.note(state)

    def wait(self, seconds):
        self.now += seconds
        for name, run in self.runs.items():
            self.schedule.states[name].status = run.status()
        self.left.follow(self.schedule.states)

    def told(self):
        return self.left.seconds(self.schedule)


@pytest.fixture
def story(tell, store):
    return partial(Story, tell, store)


def test_there_is_a_total_from_the_first_second_and_it_shrinks_as_time_passes(story):
    one = story("ab")
    assert one.told() == 120
    one.phase("a", "running")
    one.wait(13)
    assert one.told() == 107
    assert one.left.of_run("a") == 47
    one.wait(500)
    assert one.told() == 60, "what takes longer than was thought may end at any moment"


def test_a_run_of_another_sweep_is_where_its_heartbeat_says(story):
    one = story("a")
    attempt = one.runs["a"].claim({})
    attempt.heartbeat(step=90, steps=STEPS)
    one.begin()
    assert one.told() == pytest.approx(15)
    one.phase("a", "running", handle=None)
    one.wait(0.5)
    assert one.told() == pytest.approx(5 + AFTER * 10)
    one.wait(2)
    assert one.told() == pytest.approx(3 + AFTER * 10)


def test_a_run_that_is_watched_tells_its_pace_and_in_the_end_what_it_took(story):
    one = story("a")
    one.phase("a", "running")
    attempt = one.runs["a"].claim({})
    one.wait(2)
    attempt.heartbeat(step=10, steps=STEPS)
    one.wait(0.5)
    attempt.heartbeat(step=20, steps=STEPS)
    one.wait(PACE_S / 2)
    assert not one.learn.called, "too short to tell"
    attempt.heartbeat(step=40, steps=STEPS)
    one.wait(PACE_S)
    share = pytest.approx(0.3)
    one.learn.assert_called_once_with(ANY, 1.5 * PACE_S, None, share)
    result = {"metrics": {}, "seconds": 5.5, "overhead_seconds": 2.0}
    one.runs["a"].publish_result(attempt, result)
    attempt.finish("done")
    one.now += 1
    one.phase("a", "done", handle=None)
    one.learn.assert_called_with(ANY, 5.5, 2.0)
    assert one.told() == 0


def test_where_nothing_more_is_started_only_what_runs_counts(story):
    one = story("ab")
    one.phase("a", "running")
    one.schedule.breaker.tripped = "3 runs failed in the same way"
    assert one.told() == 60


def test_a_run_that_is_to_be_started_again_keeps_what_it_saved(story):
    one = story("a")
    one.phase("a", "running")
    attempt = one.runs["a"].claim({})
    (attempt.checkpoint_dir / "step-00000050.ckpt").touch()
    attempt.finish("interrupted")
    one.phase("a", "waiting", handle=None)
    assert one.told() == pytest.approx(25 + 10)


def test_a_log_has_a_line_for_each_run_that_ended_and_a_heartbeat_each_minute(
    story,
):
    one = story("ab")
    log = one.show(terminal=False)
    one.phase("a", "done")
    one.phase("b", "failed", reason="a reason")
    for seconds in (progress.HEARTBEAT_S - 1, 1, 0):
        one.now += seconds
        one.note(None)
    [done, failed, heartbeat] = log.getvalue().splitlines()
    assert done.startswith(f"[1/2] done     {LABEL}")
    assert failed == f"[1/2] failed   {LABEL}  a reason"
    assert heartbeat.startswith("1 done · 1 failed · ")


def test_a_terminal_shows_a_bar_and_a_row_for_each_run_that_trains(story):
    one = story("ab")
    shown = one.show(terminal=True)
    with one.display:
        one.phase("a", "done")
        one.phase("b", "running")
    plain = re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", shown.getvalue())
    lines = [line.rstrip() for line in plain.splitlines()]
    assert "━" * 10 in plain
    assert "1 running · 1 done · " in plain
    assert "starting" in plain
    shared, _, own = LABEL.partition("/")
    assert shared not in plain, "the one experiment takes no room"
    assert any(own[:40] in line for line in lines)
    assert all(len(line) <= 120 for line in lines), "a name is cut at the edge"
