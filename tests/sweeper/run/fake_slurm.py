"""A cluster that takes so many jobs and answers what a test has it say."""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace

from sweeper.run.backend import BackendContext, Job, Resources
from sweeper.run.backends.slurm import SlurmBackend
from sweeper.run.slurm import queue
from sweeper.run.slurm.limits import Limits
from sweeper.run.slurm.submission import NotNow
from sweeper.size_server import SizeServer
from tests.policies import launcher
from tests.tasks.jobs import config, freeze


@functools.cache
def usual():
    return launcher("slurm")


class Slurm:
    """A backend on a cluster that takes so many jobs, and what was handed in to it."""

    def __init__(self, outputs, monkeypatch, *, array=100, room=100, **options):
        self.outputs, self.room, self.handed_in, self.states = outputs, room, [], {}
        self.said = {}  # what squeue tells; None: nothing
        ids = map(str, itertools.count(1))

        def hand_in(outputs, jobs, options, needed, held_by, code):
            if len(jobs) > self.room - len(self.states):
                raise NotNow("sbatch refused the job: QOSMaxSubmitJobPerUserLimit")
            new = [next(ids) for _ in jobs]
            self.handed_in += [([run.name for run in runs], held_by) for runs in jobs]
            self.states |= dict.fromkeys(new, "RUNNING")
            return new

        monkeypatch.setattr("sweeper.run.backends.slurm.hand_in", hand_in)
        monkeypatch.setattr("time.sleep", lambda seconds: None)
        monkeypatch.setattr(
            queue, "states", lambda: None if self.said is None else self.states.copy()
        )
        monkeypatch.setattr(queue, "names", lambda: self.said)
        monkeypatch.setattr(queue, "accounted", lambda jobs: {})
        monkeypatch.setattr(queue, "send", lambda job, number: self.said.update({job: number}))
        self.said = {"0": "another's"}
        given = replace(usual(), poll_s=0.1, **options)
        context = BackendContext(given, {Resources.of(config())}, "none", outputs, SizeServer())
        self.backend = SlurmBackend(context, Limits(array, 50))

    def start(self, name, seconds=None, parent=None, after=None):
        run = freeze(self.outputs, {"seed": len(self.handed_in)}, name)
        slot = self.backend.grant(Job(name, 1.0, parent, seconds=seconds), [*range(50)])
        return None if slot is None else self.backend.start(run.path, slot, after)

    def look(self):
        self.backend._next_look = 0
        return self.backend.ended(0)
