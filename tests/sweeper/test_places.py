"""Where a command stands and where its output goes: no traceback, whatever is missing there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sweeper.__main__ import main
from sweeper.store.plans import write_plan
from tests.sweeper.test_damaged_files import plan
from tests.tasks.jobs import freeze

ROOT = Path(__file__).resolve().parents[2]
HERE = f"cd {ROOT}; "
PLACES = {
    "full": (HERE, ">/dev/full", 2, "error: the output cannot be written: No space left on device"),
    "closed": (HERE, ">&-", 0, ""),
    "silent": (HERE, "2>&-", 0, ""),
    "unread": (
        f"{HERE} set -o pipefail; ",
        "| true",
        2,
        "error: The output was closed; files that were written stay.",
    ),
    "ascii": (f"{HERE} LC_ALL=POSIX PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 ", "", 0, ""),
    "deleted": ("mkdir gone; cd gone; rmdir ../gone; ", "", 0, ""),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_command_ends_in_words(place, tmp_path):
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


def test_records_are_for_their_owner_alone_and_what_is_made_of_them_may_be_handed_on(tmp_path):
    run = freeze(tmp_path / "outputs")
    write_plan(run.outputs, plan("first", run.id))
    report = f"{sys.executable} -m sweeper report --outputs {run.outputs}"
    command = f"umask 000; {sys.executable} -m tasks.prepare {run.path} && {report}"
    subprocess.run(["bash", "-c", command], check=True, cwd=ROOT, capture_output=True)
    modes = {path: path.stat().st_mode & 0o077 for path in run.outputs.rglob("*")}
    assert [path for path in modes if path.name == "digests.json"]
    page, tables = run.outputs / "report.html", run.outputs / "tables"
    made = {page: 0o044, tables: 0o055, **dict.fromkeys(tables.iterdir(), 0o044)}
    assert {path: mode for path, mode in modes.items() if mode} == made
    assert run.outputs.stat().st_mode & 0o777 == 0o700  # nobody else comes by


def test_a_store_that_cannot_be_written_is_reported_elsewhere(tmp_path):
    run = freeze(tmp_path / "outputs")
    write_plan(run.outputs, plan("first", run.id))
    before = sorted(run.outputs.rglob("*"))
    elsewhere = tmp_path / "shared"
    for command in ("collect", "draw", "report"):
        assert main([command, f"--outputs={run.outputs}", f"-o={elsewhere}"]) == 0
    assert sorted(run.outputs.rglob("*")) == before
    assert (elsewhere / "report.html").stat().st_mode & 0o777 == 0o644
    assert (elsewhere / "figures" / "first.png").exists()
    assert elsewhere.stat().st_mode & 0o777 == 0o755
