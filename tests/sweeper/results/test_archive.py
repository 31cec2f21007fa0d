"""Finished runs in one file are read as if they lay in folders, whatever ended their archiving."""

import hashlib
import re
import zipfile
from pathlib import Path

import pytest

from sweeper.__main__ import main
from sweeper.cli.forget import archive
from sweeper.export.bundle import write_bundle
from sweeper.store.errors import UserError
from sweeper.store.files import as_json, with_checksum
from sweeper.store.runs import RunStore, State
from tests.sweeper.results.synthetic import Model, Sweep
from tests.sweeper.results.test_compare import compared, sweep

NAME = "fig1"


def read(outputs: Path, capsys: pytest.CaptureFixture[str]) -> list[object]:
    """What every command says and writes of the runs, and what each run says of itself."""
    said = []
    for command in (["status", "--all"], ["status", "--json"], ["collect"], ["report"]):
        assert main([*command, "--outputs", str(outputs)]) == 0
        said.append(capsys.readouterr().out)
    tables = {path.name: path.read_bytes() for path in (outputs / "tables").iterdir()}
    runs = [RunStore(outputs).run(id) for id in RunStore(outputs).ids()]
    about = [(r.id, r.record(), r.result(), r.history(), len(r.attempts())) for r in runs]
    page = re.sub(r"\d\d:\d\d", "", (outputs / "report.html").read_text())  # when it was written
    return [said, tables, about, [r.attempts()[-1].log_end(99) for r in runs], page]


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


def test_a_sweep_finds_archived_runs_done_and_freezes_them_as_they_are(tmp_path):
    store = RunStore(sweep(tmp_path))
    record = store.run(store.ids()[0]).record()
    archive(tmp_path, NAME)
    again = RunStore(tmp_path).freeze(record)
    assert again.status().state is State.DONE
    assert not again.path.exists()


def test_done_again_it_takes_what_was_done_since(tmp_path):
    first = Sweep(claims=())
    first.add("standard", {"model.heads": 2}, Model(64, 2, 16), {0: 40.0, 1: None})
    first.write(tmp_path)
    assert archive(tmp_path, NAME)[1] == 1
    run = next(
        run
        for run in map(RunStore(tmp_path).run, RunStore(tmp_path).ids())
        if run.status().state is not State.DONE
    )
    run.publish_result(run.claim({}), {"metrics": {first.metric: 41.0}, "steps": 7})
    made, gone = archive(tmp_path, NAME)
    assert (made and made.name, gone) == ("fig1-0002.zip", 1)
    assert archive(tmp_path, NAME) == (None, 0)
    states = {RunStore(tmp_path).run(id).status().state for id in RunStore(tmp_path).ids()}
    assert states == {State.DONE}


def test_it_is_refused_while_a_run_is_trained_and_nothing_happens(tmp_path):
    made = Sweep(claims=())
    made.add("standard", {"model.heads": 2}, Model(64, 2, 16), {0: 40.0, 1: None})
    made.write(tmp_path)
    store = RunStore(tmp_path)
    [open_run] = [id for id in store.ids() if store.run(id).status().state is not State.DONE]
    store.run(open_run).claim({})
    with pytest.raises(UserError, match=f"fig1: run {open_run} is in training"):
        archive(tmp_path, NAME)
    assert len(list((tmp_path / "runs").iterdir())) == 2
    assert not (tmp_path / "archives").exists()


@pytest.mark.parametrize("moment", range(4))
def test_killed_at_any_moment_it_loses_nothing(moment, tmp_path, monkeypatch):
    """Before the archive has its name, after that, and with some of the folders taken away."""
    store = RunStore(sweep(tmp_path, seeds=(0,)))
    before = {id: store.run(id).result() for id in store.ids()}
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
    store = RunStore(tmp_path)
    assert {id: store.run(id).result() for id in store.ids()} == before
    archive(tmp_path, NAME)
    store = RunStore(tmp_path)
    assert {id: store.run(id).result() for id in store.ids()} == before
    assert sorted(path.name for path in tmp_path.iterdir() if path.name[0] == ".") == []
    assert len(list((tmp_path / "archives").iterdir())) == 1


def test_a_damaged_archive_is_named_and_its_runs_are_not_new(tmp_path, capsys):
    store = RunStore(sweep(tmp_path, seeds=(0,)))
    ids = store.ids()
    made, _ = archive(tmp_path, NAME)
    assert made is not None
    whole = made.read_bytes()
    name = f"runs/{ids[0]}/result.json"
    with zipfile.ZipFile(made) as file:
        at = file.getinfo(name).header_offset + 60 + len(name)
    made.unlink()
    made.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    states = [RunStore(tmp_path).run(id).status().state for id in ids]
    assert states == [State.FAILED, *[State.DONE] * (len(ids) - 1)]
    assert "fig1-0001.zip" in RunStore(tmp_path).run(ids[0]).status().reason
    made.unlink()
    made.write_bytes(whole[: len(whole) // 2])
    assert {RunStore(tmp_path).run(id).status().state for id in ids} == {State.FAILED}
    made.unlink()
    made.write_bytes(whole)
    with zipfile.ZipFile(made) as file:  # as its page says: how they are put back
        file.extractall(tmp_path)
    made.unlink()
    assert {RunStore(tmp_path).run(id).status().state for id in ids} == {State.DONE}


def test_an_archive_of_the_first_format_is_read_and_its_weights_stay_out_of_a_bundle(tmp_path):
    store = RunStore(sweep(tmp_path, seeds=(0,)))
    before = {id: store.run(id).result() for id in store.ids()}
    (store.run(min(before)).attempt(1).checkpoint_dir / "weights.ckpt").write_bytes(b"weights")
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
    store = RunStore(tmp_path)
    assert {id: store.run(id).result() for id in store.ids()} == before
    bundle = write_bundle(tmp_path, [NAME], tmp_path / "fig1.zip")
    with zipfile.ZipFile(bundle) as file:
        assert f"fig1/runs/{min(before)}/result.json" in file.namelist()
        assert not [name for name in file.namelist() if "ckpt" in name]
