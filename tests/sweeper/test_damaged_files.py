"""Tests that a damaged file is reported, and that commands still show everything else."""

import json
import os
import sys
from pathlib import Path

import pytest

from sweeper.__main__ import main
from sweeper.store.files import with_checksum
from sweeper.store.plans import write_plan
from tasks import prepare
from tests.end_to_end.test_sweep import ROOT, completed, rows
from tests.tasks.jobs import freeze

COMMANDS = ("status", "collect")
ARMS = {"arms": {"one": {"label": "one"}}, "claims": [], "metric": "test/loss"}


def plan(experiment, run):
    about = {"experiment": experiment, "arm": "one", "task": "lm1b", "matched": None}
    point = {**about, "values": {"model.heads": 5}, "seed": 3, "run": run}
    size = {"tokens": 2003, "params_total": 17}
    return {
        "experiments": {experiment: ARMS},
        "points": [point],
        "runs": {run: {"size": size, "parent": None}},
        "estimate": {run: 61.0},
        "command": ["sweep.py"],
        "scale": "demo",
    }


@pytest.fixture
def outputs(tmp_path):
    """Two experiments with one run each. The run of the second is finished."""
    for experiment, name in (("first", "a"), ("second", "b")):
        run = freeze(tmp_path, {"model.heads": 5}, name)
        attempt = run.claim({"machine": "elsewhere", "boot": "another"})
        attempt.heartbeat(step=7, steps=19)
        write_plan(tmp_path, plan(experiment, name))
    run.publish_result(
        attempt, {"metrics": {"test/loss": 1.5}, "steps": 19, "seconds": 2.5}
    )
    return tmp_path


FILES = {
    "plan": "plans/0001.json",
    "record": "runs/a/run.json",
    "attempt": "runs/a/attempts/0001/attempt.json",
    "beat": "runs/a/attempts/0001/beat.json",
    "result": "runs/b/result.json",
}


def changed_to(*, seal=with_checksum, **values):
    """Change values in a JSON file, and its checksum. With `seal=dict`, remove the checksum."""

    def damage(path):
        value = json.loads(path.read_text()) | values
        value.pop("sha256", None)
        path.write_text(json.dumps(seal(value)))

    return damage


def linked(path):
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def replaced_by(make):
    def damage(path):
        path.unlink()
        make(path)

    return damage


DAMAGES = {
    "empty": lambda path: path.write_text(""),
    "cut": lambda path: path.write_text(path.read_text()[:-9]),
    "a list": lambda path: path.write_text("[1e999]"),
    "nested": lambda path: path.write_text("[" * 100_000),
    "digits": lambda path: path.write_text("1" * 10_000),
    "link": linked,
    "pipe": replaced_by(os.mkfifo),
    "folder": replaced_by(Path.mkdir),
    "no checksum": changed_to(seal=dict),
    "a letter": lambda path: path.write_text(path.read_text().replace("o", "0")),
}


CONTENTS = {
    "plan: a cycle of parents": changed_to(
        runs={"a": {"parent": "c"}, "c": {"parent": "a"}}
    ),
    "plan: a run that is a path": changed_to(points=[{"run": "../../etc"}]),
    "plan: a seed of text": changed_to(points=[{"run": "a", "seed": "3"}]),
    "plan: a number of 400 digits": changed_to(estimate={"a": 10**400}),
    "plan: another format": changed_to(format=97),
    "record: of another run": changed_to(id="b"),
    "result: of another run": changed_to(id="a"),
    "beat: a step of text": changed_to(step="seven"),
    "beat: a huge speed": changed_to(tokens_per_second=10**400),
    "beat: no phase": changed_to(phase=None),
    "result: nested metrics": changed_to(metrics={"a": {"b": "c"}}),
}
CASES = CONTENTS | {
    f"{file}: {name}": damage for file in FILES for name, damage in DAMAGES.items()
}


def losses(outputs, name):
    """Return the losses in a table, or [] if there is no table."""
    there = (outputs / "tables" / f"{name}.csv").exists()
    return [row.get("test/loss", "") for row in rows(outputs, name)] if there else []


@pytest.mark.parametrize("case", CASES)
def test_a_damaged_file_is_named_and_the_rest_is_shown_without_a_wrong_number(
    case, outputs, capfd
):
    file = case.partition(":")[0]
    path = outputs / FILES[file]
    CASES[case](path)
    codes = [main([command, "--outputs", str(outputs)]) for command in COMMANDS]
    told = capfd.readouterr()
    assert "Traceback" not in told.err
    if file == "beat":
        assert codes == [0, 0]
    else:
        assert 1 in codes
        named = " ".join((told.err + told.out).split())
        assert str(path) in named or str(path.parent) in named
    assert ("first" if file == "result" else "second") in told.out
    assert {*losses(outputs, "second")} <= {"1.5", ""}
    assert {*losses(outputs, "first")} <= {""}


UNJUDGED = {
    "claimed": ARMS | {"claims": ["fixed_improves"]},
    "measured": ARMS | {"claims": ["fixed_keeps_improving"], "metric": "test/beauty"},
    "drawn": ARMS | {"figure": "fig5"},
    "without_a_metric": {"arms": {"one": {}}},
    "without_arms": {"metric": "test/loss", "finetune": {"mnli": "test/accuracy"}},
}


@pytest.mark.parametrize(
    ("command", "concerned", "made"),
    [
        ("collect", UNJUDGED.keys() - {"drawn"}, "tables/second.claims.json"),
        ("draw", {"drawn"}, "figures/second.pdf"),
        ("report", set(), "report.html"),
    ],
)
def test_plans_that_cannot_be_judged_or_drawn_are_named(
    command, concerned, made, outputs, capfd
):
    for name, about in UNJUDGED.items():
        write_plan(outputs, {**plan(name, "a"), "experiments": {name: about}})
    assert main([command, "--outputs", str(outputs)]) == 1
    told = capfd.readouterr()
    assert "Traceback" not in told.err
    named = {line.split()[1].rstrip(":") for line in told.err.splitlines()}
    assert concerned <= named <= UNJUDGED.keys()
    assert (outputs / made).stat().st_size > 0


HERE = f"cd {ROOT}; "
PLACES = {
    "full": (
        HERE,
        ">/dev/full",
        2,
        "error: the output cannot be written: No space left on device",
    ),
    "closed": (HERE, ">&-", 0, ""),
    "silent": (HERE, "2>&-", 0, ""),
    "unread": (
        f"{HERE} set -o pipefail; ",
        "| true",
        2,
        "error: The output was closed before the command ended. Files that were already written "
        "stay. Repeat the command to finish.",
    ),
    "deleted, in ascii": (
        "mkdir gone; cd gone; rmdir ../gone; LC_ALL=POSIX PYTHONUTF8=0 PYTHONCOERCECLOCALE=0 ",
        *("", 0, ""),
    ),
}


@pytest.mark.parametrize(
    ("before", "after", "code", "told"), PLACES.values(), ids=PLACES
)
def test_a_command_ends_in_words(before, after, code, told, tmp_path):
    outputs = tmp_path / "outputs"
    write_plan(outputs, plan("fïrst", "a"))
    command = f"{before}{sys.executable} -m sweeper collect --outputs {outputs} {after}"
    environment = {"PYTHONPATH": str(ROOT)}
    ended = completed("bash", "-c", command, code=code, cwd=tmp_path, env=environment)
    assert ended.stderr.strip() == told


def test_records_are_for_their_owner_alone_and_what_is_made_of_them_may_be_handed_on(
    tmp_path,
):
    before = os.umask(0)
    try:
        run = freeze(tmp_path / "outputs", {"model.heads": 5})
        write_plan(run.outputs, plan("first", run.id))
        assert prepare.main(str(run.path)) == 0
        assert main(["report", "--outputs", str(run.outputs)]) == 0
    finally:
        os.umask(before)
    modes = {path: path.stat().st_mode & 0o077 for path in run.outputs.rglob("*")}
    assert "digests.json" in {path.name for path in modes}
    page, tables = run.outputs / "report.html", run.outputs / "tables"
    made = {page: 0o044, tables: 0o055, **dict.fromkeys(tables.iterdir(), 0o044)}
    assert {path: mode for path, mode in modes.items() if mode} == made
    # Other users cannot enter the folder.
    assert run.outputs.stat().st_mode & 0o777 == 0o700


def test_a_store_that_cannot_be_written_is_reported_elsewhere(tmp_path):
    run = freeze(tmp_path / "outputs", {"model.heads": 5})
    write_plan(run.outputs, plan("first", run.id))
    before = sorted(run.outputs.rglob("*"))
    elsewhere = tmp_path / "shared"
    for command in ("collect", "draw", "report"):
        assert main([command, f"--outputs={run.outputs}", f"-o={elsewhere}"]) == 0
    assert sorted(run.outputs.rglob("*")) == before
    assert (elsewhere / "report.html").stat().st_mode & 0o777 == 0o644
    assert (elsewhere / "figures" / "first.png").exists()
    assert elsewhere.stat().st_mode & 0o777 == 0o755
