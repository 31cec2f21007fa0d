"""Machines that share a folder, each of which sees what the others made some time later.

`late_names.cpp` simulates that, preloaded into a process for each machine. It is a simplification
of NFS, stricter in one thing (no name of another is seen early) and laxer in another (what a file
holds is never old).
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from sweeper.store.registry import ROOT
from sweeper.store.runs import RunStore, State

pytestmark = pytest.mark.slow

LATE_S, NAMES = 0.7, ("first", "second", "third")
MACHINE = """
import sys, time
from pathlib import Path
from sweeper.store import liveness
from sweeper.store.records import Record
from sweeper.store.runs import RunStore, State

outputs, own = Path(sys.argv[1]), sys.argv[2]
liveness._first_line = lambda path: own  # another boot of another machine
store, done = RunStore(outputs), set()
for number in range(4):
    store.freeze(Record(f"run-{number}", {}))
while len(done) < 4:
    for run in map(store.run, store.ids()):
        status = run.status()
        if status.state is State.DONE:
            done.add(run.id)
        elif status.state is not State.RUNNING:
            attempt = run.claim({"by": own})
            with liveness.held(outputs / "data"), (outputs / "inside").open("x"):
                (outputs / "inside").unlink()
            attempt.heartbeat(step=1)
            with attempt.metrics() as metrics:
                metrics.write({"step": 1, "by": own})
            if run.publish_result(attempt, {"metrics": {"loss": 2.5}}):
                print(run.id, attempt.number, own, flush=True)
            else:
                attempt.finish("done")
    time.sleep(0.05)
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    """The library to preload; skips where it cannot be built, or the system cannot tell ages."""
    folder = tmp_path_factory.mktemp("late")
    built, source = folder / "late.so", Path(__file__).with_name("late_names.cpp")
    if not shutil.which("g++") or not sys.platform.startswith("linux"):
        pytest.skip("needs g++ on Linux to build the shim that delays what is seen")
    subprocess.run(
        ["g++", "-shared", "-fPIC", "-O1", "-o", built, source, "-ldl"], check=True
    )
    (folder / "new").touch()
    code = f"import os; print(os.path.exists({str(folder / 'new')!r}))"
    if _started(built, folder, 1e6, code).communicate()[0] != "False\n":
        pytest.skip("this file system does not tell when a file was made")
    return built


def _started(shim, folder, seconds, *command):
    late = {
        "LD_PRELOAD": str(shim),
        "LATE_FOLDER": str(folder),
        "LATE_SECONDS": str(seconds),
    }
    return subprocess.Popen(
        [sys.executable, "-c", *command],
        cwd=ROOT, env={**os.environ, **late}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip


def test_nothing_is_lost_between_machines_that_see_each_other_late(shim, tmp_path):
    machines = [
        _started(shim, tmp_path, LATE_S, MACHINE, tmp_path, name) for name in NAMES
    ]
    told = [machine.communicate(timeout=120) for machine in machines]
    assert not any(machine.returncode for machine in machines), told
    published = sorted(line.split() for out, _ in told for line in out.splitlines())
    assert [run for run, _, _ in published] == [f"run-{n}" for n in range(4)]
    for name, number, by in published:
        run, winner = RunStore(tmp_path).run(name), int(number)
        attempts = run.attempts()
        assert [one.number for one in attempts] == list(range(1, len(attempts) + 1))
        assert run.status().state is State.DONE
        assert run.result().attempt == winner
        assert run.attempt(winner).info()["by"] == by
        assert not list(run.path.glob("differs-*"))
    assert not list(tmp_path.glob("data.lock-*"))
