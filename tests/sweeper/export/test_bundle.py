"""Bundles: judged elsewhere from the records, with the answers that they have at home."""

import io
import json
import shutil
import zipfile
from pathlib import Path

import pytest
from rich.console import Console

from sweeper.export.bundle import judge_again, write_bundle
from sweeper.export.pack import write_export
from sweeper.results.figures import KINDS
from sweeper.store.archive import MANIFEST
from sweeper.store.files import as_json
from sweeper.store.runs import RunStore
from tests.sweeper.results.grids import FEW, figure1

CLAIMS = "tables/fig1.claims.json"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A small Figure 1 as it lies where it was trained, weights included."""
    outputs = figure1(grid=FEW).write(tmp_path_factory.mktemp("home") / "outputs")
    for state, revision in (("1a2b", "c0ffee-dirty-7"), ("3c4d", "another commit")):
        (outputs / "code" / state).mkdir(parents=True)
        (outputs / "code" / state / "REVISION").write_text(f"{revision}\n")
        (outputs / "code" / state / "changes.diff").write_text("+ as it was\n")
    attempt = RunStore(outputs).run(next(iter(RunStore(outputs).ids()))).attempt(1)
    (attempt.checkpoint_dir / "weights.ckpt").write_bytes(b"weights")
    said = as_json({**attempt.info(), "code": "c0ffee-dirty-7"})
    (attempt.path / "attempt.json").write_text(said)
    return outputs


@pytest.fixture(scope="module")
def bundle(home):
    return write_bundle(home, ["fig1"], home.parent / "fig1.zip")


def judged(bundle: Path, into: Path) -> tuple[int, str]:
    printed = io.StringIO()
    code = judge_again(Console(file=printed, width=300), bundle, into)
    return code, printed.getvalue()


def files_of(bundle: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(bundle) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def test_elsewhere_answers_and_figures_are_those_of_home(bundle, tmp_path, monkeypatch):
    moved = Path(shutil.copy(bundle, tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("socket.socket.connect", None)
    code, said = judged(moved, tmp_path / "judged")
    assert code == 0
    assert said.count("fig1: ") == 3
    assert "All verdicts equal those of the bundle. 1 table, 1 figure: " in said
    files = files_of(bundle)
    for name in (*(f"figures/fig1.{kind}" for kind in KINDS), "tables/fig1.csv", CLAIMS):
        assert (tmp_path / "judged" / name).read_bytes() == files[name]


@pytest.mark.usefixtures("undrawn")
def test_equal_records_are_equal_bytes_with_the_code_that_trained_and_no_weights(home, tmp_path):
    made, again = (
        write_bundle(home, ["fig1"], tmp_path / name / "fig1.zip") for name in ("made", "again")
    )
    assert again.read_bytes() == made.read_bytes()
    files = files_of(made)
    assert not [name for name in files if "ckpt" in name]
    assert {name: content for name, content in files.items() if "code/" in name} == {
        "code/1a2b/REVISION": b"c0ffee-dirty-7\n",
        "code/1a2b/changes.diff": b"+ as it was\n",
    }


@pytest.mark.usefixtures("undrawn")
def test_what_never_began_is_missing_there_as_at_home(home, tmp_path):
    outputs = Path(shutil.copytree(home, tmp_path / "outputs"))
    store = RunStore(outputs)
    never = store.run(max(store.ids())).path
    shutil.rmtree(never / "attempts")
    (never / "result.json").unlink()
    code, said = judged(write_bundle(outputs, ["fig1"], tmp_path / "fig1.zip"), tmp_path / "there")
    assert (code, "All verdicts equal those of the bundle" in said) == (0, True), said


@pytest.mark.usefixtures("undrawn")
def test_another_answer_is_told_and_told_by_the_exit_code(bundle, tmp_path):
    files = files_of(bundle)
    manifest = json.loads(files.pop(MANIFEST))
    claims = json.loads(files[CLAIMS])
    first, second, _ = claims["verdicts"]
    before, first["verdict"] = first["verdict"], "not heard of"
    second["numbers"]["contrasts"] = []
    files[CLAIMS] = as_json(claims).encode()
    about = {"experiments": manifest["experiments"]}
    [changed] = write_export(tmp_path / "fig1.zip", "bundle", files, about)
    code, said = judged(changed, tmp_path / "judged")
    assert code == 1
    told = f"{first['claim']}, {first['measure']}: not heard of in the bundle, {before} here"
    assert told in said
    assert said.count("with other numbers here") == 1
    assert "A verdict differs." in said
