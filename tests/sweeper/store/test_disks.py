"""A store on a read-only disk can be read, and a full disk costs nothing that was written."""

from __future__ import annotations

from sweeper.store.runs import RunStore, State

RESULT = {"metrics": {"test/loss": 3.25}, "steps": 1000, "weights_sha256": "0" * 64}


def test_reading_writes_nothing(store, run, tmp_path):
    absent = RunStore(tmp_path / "absent")
    assert absent.ids() == []
    assert absent.run("none").status().state is State.NEW
    run.publish_result(run.claim({}), RESULT)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    survey(store)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


def survey(store: RunStore) -> list[str]:
    seen = []
    for name in store.ids():
        run = store.run(name)
        run.record(), run.history(), run.checkpoints(), run.attempts()
        seen.append(str(run.status().state))
    return seen


READ_ONLY = """
import os, sys
from pathlib import Path
from sweeper.store.plans import plans, write_plan
from sweeper.store.runs import RunStore
outputs = Path(sys.argv[1])
store = RunStore(outputs)
run = store.freeze({"id": "a", "config": {}})
attempt = run.claim({})
with attempt.metrics() as metrics:
    metrics.write({"step": 3})
run.publish_result(attempt, {"metrics": {}, "steps": 3})
write_plan(outputs, {"experiments": {}})
assert os.system(f"mount -o remount,ro {outputs}") == 0
print(store.ids(), store.run("a").status().state, run.history(), len(plans(outputs)))
"""


def test_a_read_only_store_can_be_read(on_tmpfs):
    assert on_tmpfs(READ_ONLY, "true") == "['a'] done [{'step': 3}] 1\n"


FULL_DISK = """
import os, sys
from pathlib import Path
from sweeper.store.files import publish, read_json
from sweeper.store.runs import RunStore
outputs = Path(sys.argv[1])
run = RunStore(outputs).freeze({"id": "a", "config": {"key": 7}})
attempt = run.claim({})
with attempt.metrics() as metrics:
    metrics.write({"step": 1})
    (outputs / "ballast").write_bytes(b"x" * 1)
    with open(outputs / "ballast", "wb", buffering=0) as ballast:
        try:
            while ballast.write(b"x" * 512):
                pass
        except OSError:
            pass
    errors = 0
    written = 1
    for step in range(2, 1000):
        try:
            metrics.write({"step": step, "note": "x" * 97})
            written = step
        except OSError:
            errors += 1
    for action in (lambda: publish(run.path / "run.json", "y" * 5000), lambda: run.claim({})):
        try:
            action()
        except OSError:
            errors += 1
    attempt.heartbeat(step=3)
    record_kept = run.record()["config"] == {"key": 7}
    (outputs / "ballast").unlink()
    metrics.write({"step": 1000})
rows = [row["step"] for row in run.history()]
print(errors > 2, record_kept, rows == [*range(1, written + 1), 1000], len(run.attempts()))
"""


def test_a_full_disk_costs_nothing_that_was_written(on_tmpfs):
    assert on_tmpfs(FULL_DISK, "true") == "True True True 1\n"
