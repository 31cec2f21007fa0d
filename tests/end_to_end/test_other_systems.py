"""A system without /proc, pidfd and CPU affinity, as macOS is, plans, trains and tells."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from tests.end_to_end.test_sweep import ROOT

# Executed by every Python process of the sweep before anything else.
WITHOUT = """
import builtins, errno, io, os, signal

for module, name in ((os, "sched_getaffinity"), (os, "sched_setaffinity"), (os, "pidfd_open"),
                     (signal, "pidfd_send_signal")):
    delattr(module, name)


def blind(real):
    def call(path, *arguments, **named):
        if isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith("/proc"):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))
        return real(path, *arguments, **named)

    return call


for module, name in ((builtins, "open"), (io, "open"), (os, "open"), (os, "stat"),
                     (os, "readlink"), (os, "listdir"), (os, "scandir")):
    setattr(module, name, blind(getattr(module, name)))
"""


def test_a_sweep_needs_nothing_that_linux_alone_has(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(WITHOUT)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    asked = "import os, pathlib; print(hasattr(os, 'pidfd_open'), pathlib.Path('/proc').exists())"
    said = subprocess.check_output([sys.executable, "-c", asked], env=environment, text=True)
    assert said.split() == ["False", "False"]

    def run(*command):
        done = subprocess.run(
            [sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    outputs = tmp_path / "outputs"
    tiny = "model.heads=1 model.head_size=3 model.embedding_size=5 model.layers=1 trainer.steps=3"
    small = "data.sentences=500 task.vocabulary_size=300 optimizer.warmup_steps=1 logger=none"
    told = run("sweep.py", *tiny.split(), *small.split(), f"paths.outputs={outputs}")
    assert "1 point, 1 run: 1 new." in told
    [line] = json.loads(run("-m", "sweeper", "status", "--json", "--outputs", str(outputs)))
    assert line["state"] == "done"
