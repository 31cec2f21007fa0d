"""An outputs folder on a full, read-only or unsuitable disk."""

import errno
import os
from pathlib import Path

import pytest

from sweeper.store.errors import UserError
from sweeper.store.runs import RunStore, State


def test_reading_writes_nothing(store, run, tmp_path):
    absent = RunStore(tmp_path / "absent")
    assert absent.ids() == []
    assert absent.run("none").status().state is State.NEW
    run.publish_result(run.claim({}), {"metrics": {"test/loss": 3.25}, "steps": 1000})
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    for one in map(store.run, store.ids()):
        one.record(), one.history(), one.checkpoints(), one.attempts(), one.status()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before


READ_ONLY = """
import os, sys
from pathlib import Path
from sweeper.store.plans import plans, write_plan
from sweeper.store.records import Record
from sweeper.store.runs import RunStore
outputs = Path(sys.argv[1])
store = RunStore(outputs)
run = store.freeze(Record("a", {}))
attempt = run.claim({})
with attempt.metrics() as metrics:
    metrics.write({"step": 3})
run.publish_result(attempt, {"metrics": {}, "steps": 3})
write_plan(outputs, {"experiments": {}})
assert os.system(f"mount -o remount,bind,ro {outputs}") == 0
print(store.ids(), store.run("a").status().state, run.history(), len(plans(outputs)))
"""


def test_a_read_only_store_can_be_read(on_tmpfs):
    assert on_tmpfs(READ_ONLY, "true") == "['a'] done [{'step': 3}] 1\n"


FULL_DISK = """
import sys
from contextlib import suppress
from pathlib import Path
from sweeper.store.files import publish, read_json
from sweeper.store.records import Record
from sweeper.store.runs import RunStore
outputs = Path(sys.argv[1])
run = RunStore(outputs).freeze(Record("a", {"key": 7}))
attempt = run.claim({})
with attempt.metrics() as metrics:
    metrics.write({"step": 1})
    with suppress(OSError), open(outputs / "ballast", "wb", buffering=0) as ballast:
        while ballast.write(b"x" * 512):
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
    record_kept = run.record().config == {"key": 7}
    (outputs / "ballast").unlink()
    metrics.write({"step": 1000})
rows = [row["step"] for row in run.history()]
print(errors > 2, record_kept, rows == [*range(1, written + 1), 1000], len(run.attempts()))
"""


def test_a_full_disk_costs_nothing_that_was_written(on_tmpfs):
    assert on_tmpfs(FULL_DISK, "true") == "True True True 1\n"


def refusal(outputs: Path) -> str:
    with pytest.raises(UserError) as caught:
        RunStore(outputs).check_writable()
    message = str(caught.value)
    assert message.startswith(f"outputs={outputs}: expected ")
    assert message.endswith(" or choose another folder.")
    assert message.isprintable()
    return message


def test_a_good_folder_is_made_and_left_empty(tmp_path):
    outputs = tmp_path / "a" / "b" / "outputs"
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b").symlink_to(tmp_path)
    RunStore(outputs).check_writable()
    RunStore(outputs).check_writable()
    assert list(outputs.iterdir()) == []


@pytest.mark.parametrize("below", [".", "outputs", "a/b/outputs"])
def test_a_file_in_the_way_is_named(tmp_path, below):
    file = tmp_path / "file"
    file.write_text("untouched")
    message = refusal(file / below)
    assert str(file) in message
    assert file.read_text() == "untouched"


@pytest.mark.parametrize(
    ("call", "code"),
    [
        ("mkdir", errno.EACCES),
        ("open", errno.EROFS),
        ("write", errno.ENOSPC),
        ("fsync", errno.EDQUOT),
        ("link", errno.EPERM),
        ("rename", errno.EIO),
    ],
)
def test_each_operation_the_store_needs_is_tried(tmp_path, failing, call, code):
    outputs = tmp_path / "outputs"
    if call != "mkdir":
        outputs.mkdir()
    with failing(call, code):
        assert os.strerror(code) in refusal(outputs)
    assert sorted(tmp_path.rglob("*")) == ([] if call == "mkdir" else [outputs])
