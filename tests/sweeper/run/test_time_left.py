"""What is left of a schedule, told with a clock of its own and runs of a known length."""

from types import SimpleNamespace

import pytest

from sweeper.run.backend import Job
from sweeper.run.makespan import makespan
from sweeper.run.progress import AFTER, PACE_S, TimeLeft
from sweeper.run.schedule import JobState, Phase
from sweeper.store.runs import RunStore, Taken

STEPS = 100
WHOLE = Taken(training=50.0, beside=10.0)


def test_runs_take_turns_in_the_slots_and_the_longest_of_few_decides():
    assert makespan({}, {}, 2) == 0
    assert makespan({}, {"a": (7, None), "b": (5, None), "c": (3, None)}, 2) == 8
    assert makespan({"a": 11}, {"b": (3, None)}, 2) == 11
    assert makespan({"a": 2, "b": 11}, {"c": (3, None), "d": (5, None)}, 2) == 11
    assert makespan({"a": 2, "b": 3, "c": 5}, {"d": (7, None)}, 2) == 9, "another sweep has more"


def test_a_child_starts_after_its_parent_and_no_slot_waits_for_it():
    waiting = {"child": (7, "parent"), "parent": (5, None), "other": (3, None)}
    assert makespan({}, waiting, 2) == 12
    assert makespan({}, waiting, 1) == 15
    assert makespan({"parent": 2}, {"child": (7, "parent")}, 2) == 9
    assert makespan({}, {"child": (7, "of another plan")}, 2) == 7


class Story:
    """Runs a, b, ... of `WHOLE` each in one slot, on a clock that stands still."""

    def __init__(self, outputs, names):
        self.now = 1000.0
        self.store = RunStore(outputs)
        self.learned = []
        self.runs = {name: self.store.run(f"lm1b-s0-{name}") for name in names}
        for run in self.runs.values():
            self.store.freeze({"id": run.id, "config": {"seed": run.id}, "size": {}, "names": {}})
        self.schedule = SimpleNamespace(
            states={run.id: JobState(Job(run.id, 1.0)) for run in self.runs.values()},
            backend=SimpleNamespace(slots=1),
            breaker=SimpleNamespace(tripped=""),
            stopping=False,
        )

    def begin(self):
        """A sweep begins; what happened before is what it finds."""
        self.left = TimeLeft(
            self.store,
            {run.id: STEPS for run in self.runs.values()},
            lambda run: WHOLE,
            lambda run, *seconds: self.learned.append((run[-1], *seconds)),
            lambda: self.now,
        )

    def phase(self, name, phase, handle=7):
        state = self.schedule.states[self.runs[name].id]
        state.phase, state.handle = phase, handle
        self.left.note(state)

    def wait(self, seconds):
        self.now += seconds
        for run in self.runs.values():
            self.schedule.states[run.id].status = run.status()
        self.left.follow(self.schedule.states)

    def told(self):
        return self.left.seconds(self.schedule)


@pytest.fixture
def story(tmp_path):
    return lambda names: Story(tmp_path, names)


def test_there_is_a_total_from_the_first_second_and_it_shrinks_as_time_passes(story):
    one = story("ab")
    one.begin()
    assert one.told() == 120
    one.phase("a", Phase.RUNNING)
    one.wait(13)
    assert one.told() == 107
    assert one.left.of_run(one.runs["a"].id) == 47
    one.wait(500)
    assert one.told() == 60, "what takes longer than was thought may end at any moment"


def interrupted(run, step):
    attempt = run.claim({})
    (attempt.checkpoint_dir / f"step-{step:08d}.ckpt").touch()
    attempt.finish("interrupted")


def test_after_an_interruption_only_what_is_left_counts(story):
    one = story("ab")
    interrupted(one.runs["a"], 80)
    one.begin()
    assert one.told() == pytest.approx(20 + 60)
    one.phase("a", Phase.RUNNING)
    one.wait(3)
    assert one.told() == pytest.approx(17 + 60)


def test_a_run_of_another_sweep_is_where_its_heartbeat_says(story):
    one = story("a")
    attempt = one.runs["a"].claim({})
    attempt.heartbeat(step=90, steps=STEPS)
    one.begin()
    assert one.told() == pytest.approx(15)
    one.phase("a", Phase.RUNNING, handle=None)
    one.wait(0.5)
    assert one.told() == pytest.approx(5 + AFTER * 10)
    one.wait(2)
    assert one.told() == pytest.approx(3 + AFTER * 10)


def test_a_run_that_is_watched_tells_its_pace_and_in_the_end_what_it_took(story):
    one = story("a")
    one.begin()
    one.phase("a", Phase.RUNNING)
    attempt = one.runs["a"].claim({})
    one.wait(2)
    attempt.heartbeat(step=10, steps=STEPS)
    one.wait(0.5)
    attempt.heartbeat(step=20, steps=STEPS)
    one.wait(PACE_S / 2)
    assert one.learned == [], "too short to tell"
    attempt.heartbeat(step=40, steps=STEPS)
    one.wait(PACE_S)
    [(_, seconds, beside, share)] = one.learned
    assert (seconds, beside, share) == (1.5 * PACE_S, None, pytest.approx(0.3))
    one.runs["a"].publish_result(attempt, {"metrics": {}, "seconds": 5.5, "overhead_seconds": 2.0})
    attempt.finish("done")
    one.now += 1
    one.phase("a", Phase.DONE, handle=None)
    took = 2 + 0.5 + 1.5 * PACE_S + 1
    assert one.learned[1:] == [("a", 5.5, took - 5.5, 1.0)], "start and end of its process, too"
    assert one.told() == 0


def test_what_another_sweep_has_trained_is_learned_from_its_result(story):
    one = story("a")
    attempt = one.runs["a"].claim({})
    one.begin()
    one.phase("a", Phase.RUNNING, handle=None)
    one.runs["a"].publish_result(attempt, {"metrics": {}, "seconds": 5.5, "overhead_seconds": 2.0})
    one.now += 77
    one.phase("a", Phase.DONE, handle=None)
    assert one.learned == [("a", 5.5, 2.0, 1.0)]


def test_a_run_that_is_to_be_started_again_keeps_what_it_saved(story):
    one = story("a")
    one.begin()
    one.phase("a", Phase.RUNNING)
    interrupted(one.runs["a"], 50)
    one.phase("a", Phase.WAITING, handle=None)
    assert one.told() == pytest.approx(25 + 10)


def test_where_nothing_more_is_started_only_what_runs_counts(story):
    one = story("ab")
    one.begin()
    one.phase("a", Phase.RUNNING)
    one.schedule.breaker.tripped = "3 runs failed in the same way"
    assert one.told() == 60
