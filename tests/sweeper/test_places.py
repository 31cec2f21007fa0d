"""Where a command stands and where its output goes: no traceback, whatever is missing there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sweeper.store.plans import write_plan
from tests.sweeper.test_damaged_files import plan
from tests.tasks.jobs import freeze

ROOT = Path(__file__).resolve().parents[2]
HERE = f"cd {ROOT}; "
PLACES = {
    "full": (HERE, ">/dev/full", 2, "error: [Errno 28] No space left on device"),
    "closed": (HERE, ">&-", 0, ""),
    "unread": (
        f"{HERE} set -o pipefail; ",
        "| true",
        2,
        "error: Nobody reads any more what this prints; what was written stays.",
    ),
    "ascii": (f"{HERE} LC_ALL=POSIX PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 ", "", 0, ""),
    "deleted": ("mkdir gone; cd gone; rmdir ../gone; ", "", 0, ""),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_command_ends_in_words(place: str, tmp_path: Path) -> None:
    outputs = tmp_path / "outputs"
    write_plan(outputs, plan("fïrst", "a"))
    before, after, code, told = PLACES[place]
    command = f"{before}{sys.executable} -m sweeper collect --outputs {outputs} {after}"
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (done.returncode, done.stderr.strip()) == (code, told)


def test_what_is_written_is_for_its_owner_alone(tmp_path: Path) -> None:
    run = freeze(tmp_path / "outputs")
    write_plan(run.outputs, plan("first", run.id))
    report = f"{sys.executable} -m sweeper report --outputs {run.outputs}"
    command = f"umask 000; {sys.executable} -m tasks.prepare {run.path} && {report}"
    subprocess.run(["bash", "-c", command], check=True, cwd=ROOT, capture_output=True)
    modes = {path: path.stat().st_mode & 0o077 for path in run.outputs.rglob("*")}
    assert run.outputs / "report.html" in modes
    assert [path for path in modes if path.suffix == ".lock"]
    assert {path: mode for path, mode in modes.items() if mode} == {}
