"""Finished runs in one file are read as if they lay in folders, whatever ended their archiving."""

import hashlib
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from sweeper.__main__ import main
from sweeper.cli.forget import archive
from sweeper.export.bundle import write_bundle
from sweeper.store.errors import UserError
from sweeper.store.files import as_json, with_checksum
from sweeper.store.runs import Run, RunStore, State
from tests.sweeper.results.report.reported import content_of
from tests.sweeper.results.synthetic import METRIC, Model, Sweep
from tests.sweeper.results.test_compare import compared, sweep

NAME = "fig1"


def results(outputs: Path) -> dict[str, object]:
    store = RunStore(outputs)
    return {id: store.run(id).result() for id in store.ids()}


def states(outputs: Path, ids: Sequence[str] = ()) -> list[State]:
    store = RunStore(outputs)
    return [store.run(id).status().state for id in ids or store.ids()]


def read(outputs: Path, capsys: pytest.CaptureFixture[str]) -> list[object]:
    """What every command says and writes of the runs, and what each run says of itself."""
    said = []
    for command in (["status", "--all"], ["status", "--json"], ["collect"], ["report"]):
        assert main([*command, "--outputs", str(outputs)]) == 0
        said.append(capsys.readouterr().out)
    tables = {path.name: path.read_bytes() for path in (outputs / "tables").iterdir()}
    runs = [RunStore(outputs).run(id) for id in RunStore(outputs).ids()]
    about = [(r.id, r.record(), r.result(), r.history(), len(r.attempts())) for r in runs]
    page = {**content_of(outputs / "report.html"), "written": "at any minute"}
    return [said, tables, about, [r.attempts()[-1].log_end(99) for r in runs], page]


@pytest.fixture
def one_open(tmp_path):
    """A sweep of two runs, of which one is done; the other one."""
    made = Sweep(claims=())
    made.add("standard", {"model.heads": 2}, Model(64, 2, 16), {0: 40.0, 1: None})
    store = RunStore(made.write(tmp_path))
    [id] = [id for id in store.ids() if store.run(id).status().state is not State.DONE]
    return store.run(id)


def test_everything_reads_an_archive_as_it_reads_folders(tmp_path, capsys):
    outputs, other = sweep(tmp_path / "one"), sweep(tmp_path / "other", fixed=36.0)
    before, differed = read(outputs, capsys), compared(capsys, outputs, other)
    runs = len(RunStore(outputs).ids())
    assert main(["archive", NAME, "--outputs", str(outputs)]) == 0
    assert f"removed the folders of {runs} runs" in capsys.readouterr().out
    assert list((outputs / "runs").iterdir()) == []
    assert [path.name for path in (outputs / "archives").iterdir()] == ["fig1-0001.zip"]
    assert read(outputs, capsys) == before
    assert compared(capsys, outputs, other) == differed


def test_an_archived_run_is_frozen_as_it_is_and_opens_by_the_directory_that_it_had(tmp_path):
    store = RunStore(sweep(tmp_path, seeds=(0,)))
    record = store.run(store.ids()[0]).record()
    archive(tmp_path, NAME)
    again = RunStore(tmp_path).freeze(record)
    assert not again.path.exists()
    assert again.status().state is Run.open(again.path).status().state is State.DONE


def test_done_again_it_takes_what_was_done_since(tmp_path, one_open):
    assert archive(tmp_path, NAME)[1] == 1
    one_open.publish_result(one_open.claim({}), {"metrics": {METRIC: 41.0}, "steps": 7})
    made, gone = archive(tmp_path, NAME)
    assert (made and made.name, gone) == ("fig1-0002.zip", 1)
    assert archive(tmp_path, NAME) == (None, 0)
    assert states(tmp_path) == [State.DONE] * 2


def test_it_is_refused_while_a_run_is_trained_and_nothing_happens(tmp_path, one_open):
    one_open.claim({})
    with pytest.raises(UserError, match=f"fig1: run {one_open.id} is in training"):
        archive(tmp_path, NAME)
    assert len(list((tmp_path / "runs").iterdir())) == 2
    assert not (tmp_path / "archives").exists()


@pytest.mark.parametrize("moment", range(4))
def test_killed_at_any_moment_it_loses_nothing(moment, tmp_path, monkeypatch):
    """Before the archive has its name, after that, and with some of the folders taken away."""
    before = results(sweep(tmp_path, seeds=(0,)))
    renamed, real = [0], Path.rename

    def until_killed(self, target):
        if self.parent.name == "runs":
            renamed[0] += 1
            if renamed[0] == moment:
                raise SystemExit
        return real(self, target)

    with monkeypatch.context() as patch:
        if moment == 0:
            patch.setattr("sweeper.store.archive.as_json", lambda value: 1 / 0)
        patch.setattr(Path, "rename", until_killed)
        with pytest.raises((SystemExit, ZeroDivisionError)):
            archive(tmp_path, NAME)
    assert results(tmp_path) == before
    archive(tmp_path, NAME)
    assert results(tmp_path) == before
    assert sorted(path.name for path in tmp_path.iterdir() if path.name[0] == ".") == []
    assert len(list((tmp_path / "archives").iterdir())) == 1


def test_a_damaged_archive_is_named_and_its_runs_are_not_new(tmp_path):
    ids = RunStore(sweep(tmp_path, seeds=(0,))).ids()
    made, _ = archive(tmp_path, NAME)
    assert made is not None
    whole = made.read_bytes()
    name = f"runs/{ids[0]}/result.json"
    with zipfile.ZipFile(made) as file:
        at = file.getinfo(name).header_offset + 60 + len(name)

    def put(content):
        made.unlink()  # another file: an archive that was read is known by its inode
        made.write_bytes(content)
        return states(tmp_path, ids)

    flipped = put(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    assert flipped == [State.FAILED, *[State.DONE] * (len(ids) - 1)]
    assert "fig1-0001.zip" in RunStore(tmp_path).run(ids[0]).status().reason
    assert put(whole[: len(whole) // 2]) == [State.FAILED] * len(ids)
    new = RunStore(tmp_path).run("new").status().reason  # it may be in there, too
    assert re.search(r"/fig1-0001\.zip cannot be read: .*; restore the file or move it away", new)
    put(whole)
    with zipfile.ZipFile(made) as file:  # as its page says: how they are put back
        file.extractall(tmp_path)
    made.unlink()
    assert states(tmp_path) == [State.DONE] * len(ids)


def test_an_archive_of_the_first_format_is_read_and_its_weights_stay_out_of_a_bundle(tmp_path):
    before = results(sweep(tmp_path, seeds=(0,)))
    attempt = RunStore(tmp_path).run(min(before)).attempt(1)
    (attempt.checkpoint_dir / "weights.ckpt").write_bytes(b"weights")
    made, _ = archive(tmp_path, NAME)
    assert made is not None
    with zipfile.ZipFile(made) as file:
        files = {name: file.read(name) for name in file.namelist() if name != "manifest.json"}
    made.unlink()
    runs: dict[str, dict[str, str]] = {}
    with zipfile.ZipFile(made, "w") as old:
        for path, content in files.items():
            _, run, name = path.split("/", 2)
            runs.setdefault(run, {})[name] = hashlib.sha256(content).hexdigest()
            old.writestr(path, content)
        old.writestr("manifest.json", as_json(with_checksum({"format": 1, "runs": runs})))
    assert results(tmp_path) == before
    bundle = write_bundle(tmp_path, [NAME], tmp_path / "fig1.zip")
    with zipfile.ZipFile(bundle) as file:
        assert f"fig1/runs/{min(before)}/result.json" in file.namelist()
        assert not [name for name in file.namelist() if "ckpt" in name]
