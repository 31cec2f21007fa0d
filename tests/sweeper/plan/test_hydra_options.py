"""Mistakes in `hydra.sweeper.*` and `hydra.launcher.*`: each ends in one sentence."""

from __future__ import annotations

import subprocess
import sys

import pytest
from omegaconf import OmegaConf

from sweeper.hydra_section import composer
from sweeper.plan.compose import CONF
from sweeper.store.errors import UserError

MISTAKES = {
    "hydra.sweeper.max_run=3": ("hydra.sweeper.max_run is not a key", "hydra.sweeper.max_runs"),
    "hydra.sweeper.params.x=3": ("hydra.sweeper.params is not a key",),
    "hydra.sweeper.max_runs=many": ("hydra.sweeper.max_runs", "many", "Integer"),
    "hydra.sweeper.fail_fast=maybe": ("hydra.sweeper.fail_fast", "maybe", "bool"),
    "hydra.sweeper.on_oom=shrink": ("hydra.sweeper.on_oom", "shrink", "halve"),
    "hydra.sweeper.max_runs=null": ("hydra.sweeper.max_runs", "not Optional"),
    "hydra.sweeper.tries=nan": ("hydra.sweeper.tries", "nan", "Integer"),
    "hydra.sweeper.tries=0": ("hydra.sweeper.tries=0", "at least 1"),
    "hydra.sweeper.until=a": ("hydra.sweeper.until", "str", "list"),
    "hydra.sweeper.pilot=1": ("hydra.sweeper.pilot=1", "at least 2"),
    "hydra.sweeper.hang_after_s=3": ("hydra.sweeper.hang_after_s=3", "at least 15"),
    "hydra.launcher.stagger=3": ("hydra.launcher.stagger is not a key", "hydra.launcher.stagger_s"),
    "hydra.launcher.slots=two": ("hydra.launcher.slots", "two", "Integer"),
    "hydra.launcher.slots=2.5": ("hydra.launcher.slots", "2.5", "Integer"),
    "hydra.launcher.slots=0": ("hydra.launcher.slots=0", "at least 1"),
    "hydra.launcher.jobs_per_device=0": ("hydra.launcher.jobs_per_device=0", "at least 1"),
    "hydra.sweeper.notify=[x]": ("hydra.sweeper.notify was removed", "when sweep.py has ended"),
    "hydra.launcher.gpu_memory_gb=40": ("gpu_memory_gb was removed", "jobs_per_device=2"),
    "hydra/launcher=slurm hydra.launcher.time=3": ("time is not a key", "timeout_min"),
    "hydra/launcher=slurm hydra.launcher.setup=a": ("hydra.launcher.setup", "str", "list"),
    "hydra/launcher=slurm hydra.launcher.mem_gb=0": ("hydra.launcher.mem_gb=0", "at least 0.1"),
    "hydra/launcher=slurm hydra.launcher.partition='a b'": ("hydra.launcher.partition=a b", "word"),
}


COMMANDS = {
    "+hydra.sweeper.params.x=3": ("hydra.sweeper.params.x", "never added"),
    "hydra.sweeper.max_runs=many": ("hydra.sweeper.max_runs", "many", "Integer"),
    "hydra.launcher.slots=0": ("hydra.launcher.slots=0", "at least 1"),
    "hydra.sweeper.max_runs=1,2": ("hydra.sweeper.max_runs=1,2", "not supported"),
    "scale=3": ("group", "string"),
}


@pytest.fixture(scope="module")
def options():
    """The options that a command line gives the sweep and its launcher."""
    here = composer()

    def options(*typed):
        section = here.compose(typed).hydra
        return OmegaConf.to_object(section.sweeper), OmegaConf.to_object(section.launcher)

    return options


@pytest.mark.parametrize("typed", MISTAKES)
def test_a_mistake_is_one_sentence(options, typed):
    launcher, _, last = typed.rpartition(" hydra.launcher")
    with pytest.raises(UserError) as told:
        options(*([launcher, f"hydra.launcher{last}"] if launcher else [typed]))
    assert "\n" not in str(told.value)
    for words in MISTAKES[typed]:
        assert words in str(told.value)


@pytest.mark.parametrize("typed", COMMANDS)
def test_a_command_with_a_mistake_says_it_and_plans_nothing(typed, tmp_path):
    command = [sys.executable, "sweep.py", typed, f"paths.outputs={tmp_path / 'outputs'}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=CONF.parent)
    assert done.returncode == 2
    assert done.stdout == ""
    [sentence] = done.stderr.splitlines()
    assert sentence.startswith("error: ")
    for words in COMMANDS[typed]:
        assert words in sentence
    assert not (tmp_path / "outputs").exists()
