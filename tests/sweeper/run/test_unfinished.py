"""Tests of `python -m sweeper train` with a backend that trains nothing."""

import os
import signal

import pytest

from sweeper.run import unfinished
from sweeper.run.unfinished import train
from sweeper.store.records import Record
from tests.sweeper.run.conftest import FakeBackend, act
from tests.tasks.jobs import config


@pytest.fixture
def freeze(store):
    def freeze(name, *, flops=1.0, parent=None):
        own = config({"seed": name, "parent": parent and parent.id})
        names = {"experiment": "fig2", "arm": "standard", "label": f"seed={name}"}
        size = {"tokens": 1, "flops_per_token": flops}
        return store.freeze(Record(name, own, size, names))

    return freeze


@pytest.fixture
def machine(store, monkeypatch):
    """Return a function that makes the backend: one slot, and it keeps the context it receives."""

    def machine(**story):
        made = FakeBackend(store, story, slots=1)

        def backend(context):
            made.context = context
            return made

        monkeypatch.setattr(unfinished.local, "backend", backend)
        return made

    return machine


def test_parents_start_first_then_the_longest_and_nothing_that_is_done(
    store, freeze, machine
):
    parent = freeze("p", flops=2.0)
    freeze("c", flops=9.0, parent=parent)
    freeze("a", flops=3.0)
    act(freeze("d", flops=5.0), "done")
    here = machine()
    assert train(store.outputs) == 0
    assert here.started == "apc"
    assert here.context.process.code.parent == store.outputs / "code"
    assert train(store.outputs) == 0
    assert here.started == "apc", "there was nothing left"


def test_after_a_signal_the_same_command_continues(store, freeze, machine, capsys):
    freeze("a", flops=2.0)
    freeze("b")
    here = machine(a=["interrupted", "done"])
    start = here.start

    def stopped(*words):
        os.kill(os.getpid(), signal.SIGTERM)
        return start(*words)

    here.start = stopped
    assert train(store.outputs) == 128 + signal.SIGTERM
    printed = capsys.readouterr().out
    assert (
        "SIGTERM: running jobs were saved. Repeat the command to continue." in printed
    )
    del here.start
    assert train(store.outputs) == 0
    assert here.started == "aab"


def test_a_failed_parent_blocks_its_children_and_the_exit_code_says_so(
    store, freeze, machine
):
    freeze("c", parent=freeze("p"))
    here = machine(p=["nan"])
    assert train(store.outputs) == 1
    assert here.started == "p"
