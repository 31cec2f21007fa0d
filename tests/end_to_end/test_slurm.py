"""Tests with a real Slurm: equal tables, requeued jobs, and children that wait for parents."""

import json

import pytest

from sweeper.run.backend import BackendContext, Job, Resources
from sweeper.run.backends.slurm import backend
from sweeper.run.schedule import Phase, Schedule
from sweeper.size_server import SizeServer
from sweeper.store.runs import RunStore
from tests.end_to_end.test_sweep import completed, numbers, sweep
from tests.policies import launcher, policy
from tests.tasks.jobs import config, freeze, science

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("slurm")]
OPTIONS = {
    "timeout_min": 240,
    "signal_delay_s": 55,
    "mem_gb": 1,
    "gpus_per_device": 0,
    "jobs": 9,
    "max_num_timeout": 9,
    "poll_s": 0.5,
}
LONG = {
    "trainer.steps": 10**6,
    "trainer.validate_every": 0,
    "trainer.checkpoint_every": 50,
}
MEDIUM = {
    "trainer.steps": 600,
    "trainer.validate_every": 0,
    "trainer.checkpoint_every": 2,
}


class Story:
    """A sweep of six runs. Some of their jobs are cancelled, requeued or cut short."""

    def __init__(self, outputs):
        self.store = RunStore(outputs)
        names = "parent child grandchild timed requeued undisturbed".split()
        self.runs = {
            name: freeze(outputs, LONG if name in ("parent", "timed") else MEDIUM, name)
            for name in names
        }
        parents = {"child": "parent", "grandchild": "child"}
        # The parent has the highest cost, so that its children are handed in right behind it.
        jobs = [
            Job(name, 9.0 - place, parents.get(name))
            for place, name in enumerate(self.runs)
        ]
        given, resources = launcher("slurm", **OPTIONS), {Resources.of(config())}
        context = BackendContext(given, resources, "none", outputs, SizeServer())
        self.schedule = Schedule(
            self.store, backend(context), jobs, policy(), self.disturb
        )
        self._left = {
            "parent": (1, "scancel {}"),
            "timed": (1, "scontrol update TimeLimit=1 JobId={}"),
            "requeued": (1, "scontrol requeue {}"),
            "timed again": (2, "scancel {}"),
        }

    def disturb(self, schedule, state):
        for name, (attempt, command) in list(self._left.items()):
            run = self.runs[name.split()[0]]
            attempts = run.attempts()
            # The next attempt deletes the checkpoints of this one, so later attempts count, too.
            begun = [one for one in attempts if one.number >= attempt]
            if any(list(one.checkpoint_dir.glob("*")) for one in begun):
                if (
                    name != "timed again"
                ):  # Slurm forgets a cancellation while it requeues the job
                    del self._left[name]
                told = json.loads(
                    (run.outputs / "slurm" / f"{run.id}.json").read_text()
                )
                completed(*command.format(told["job"]).split())


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    told = Story(tmp_path_factory.mktemp("story"))
    assert not told.schedule.execute()
    return told


def test_cancelling_a_parent_blocks_its_children_by_name(story):
    states = story.schedule.states
    assert states["parent"].phase is Phase.FAILED
    assert "was cancelled" in states["parent"].reason
    for name, parent in (("child", "parent"), ("grandchild", "child")):
        assert states[name].phase is Phase.BLOCKED
        assert parent in states[name].reason
        assert not story.runs[name].attempts()


def test_a_run_at_its_time_limit_saves_and_goes_on_in_the_same_job(story):
    first, second = story.runs["timed"].attempts()[:2]
    assert first.exit()["cause"] == "interrupted"
    saved = [int(path.stem[5:]) for path in first.checkpoint_dir.glob("step-*.ckpt")]
    assert second.info()["resumed_from"] > 0
    assert not saved or max(saved) == second.info()["resumed_from"]
    assert story.schedule.states["timed"].tries == 1


def test_a_requeued_run_ends_with_the_bits_of_an_undisturbed_one(story):
    assert len(story.runs["requeued"].attempts()) == 2
    assert story.schedule.states["requeued"].tries == 1
    assert science(story.runs["requeued"]) == science(story.runs["undisturbed"])


def test_a_sweep_gives_the_same_numbers_as_on_this_machine(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    grid = "-m name=grid model.heads=1,2 model.head_size=4 trainer.steps=20".split()
    slurm = "hydra/launcher=slurm trainer.accelerator=cpu".split()
    slurm += "hydra.launcher.poll_s=0.5 hydra.launcher.mem_gb=1".split()
    for outputs, further in ((there, slurm), (here, [])):
        sweep(outputs, *grid, *further)
    assert len(numbers(here)) == 2
    assert numbers(there) == numbers(here)
    assert (there / "figures" / "grid.pdf").exists()


def test_a_store_that_others_may_write_to_is_refused_before_data_is_prepared(tmp_path):
    shared = tmp_path / "outputs"
    shared.mkdir()
    shared.chmod(0o777)
    done = sweep(shared, "hydra/launcher=slurm", "trainer.accelerator=cpu", code=2)
    assert "chmod go-w" in done.stderr
    assert not any(
        (shared / name).exists() for name in ("data", "runs", "plans", "slurm")
    )
