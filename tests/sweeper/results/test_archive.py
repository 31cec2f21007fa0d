"""Archived runs are read like folders, and two sweeps are compared seed by seed."""

import hashlib
import json
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from sweeper.__main__ import main
from sweeper.cli.forget import archive
from sweeper.export.bundle import write_bundle
from sweeper.results.compare import compare
from sweeper.store.errors import UserError
from sweeper.store.files import as_json, with_checksum
from sweeper.store.runs import RunStore, State
from tests.sweeper.results.synthetic import METRIC, Model, Sweep

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
    page = re.sub(r"\d\d:\d\d", "", (outputs / "report.html").read_text())  # when it was written
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


def test_a_sweep_finds_archived_runs_done_and_freezes_them_as_they_are(tmp_path):
    store = RunStore(sweep(tmp_path))
    record = store.run(store.ids()[0]).record()
    archive(tmp_path, NAME)
    again = RunStore(tmp_path).freeze(record)
    assert again.status().state is State.DONE
    assert not again.path.exists()


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


HEADS = (2, 4, 8)


def sweep(outputs, *, fixed=40.0, seeds=(0, 1, 2, 3, 4)):
    """Heads of a fixed size beside larger standard models, with seeds that scatter by 1 %."""
    made = Sweep(claims=("small_beats_large",))
    for arm, size, middle in (("standard", 64, 40.0), ("fixed", 32, fixed)):
        for heads in HEADS:
            values = {seed: middle * (1 + 0.01 * ((seed * 7 + heads) % 5 - 2)) for seed in seeds}
            made.add(arm, {"model.heads": heads}, Model(size, heads, 16), values)
    return made.write(outputs)


def compared(capsys, *words, outputs="outputs"):
    code = compare(Console(width=200, highlight=False), outputs, *map(str, words))
    return code, capsys.readouterr().out


@pytest.mark.parametrize(
    ("models", "told"), [("1", "nothing that trains"), ("2", "models")], ids=["same", "edited"]
)
def test_versions_are_told_beside_whether_results_differ(tmp_path, capsys, models, told):
    one, other = sweep(tmp_path / "one"), sweep(tmp_path / "other")
    for folder, code, parts in ((one, "aaa", {"models": "1"}), (other, "bbb", {"models": models})):
        for path in folder.glob("runs/*/attempts/*/attempt.json"):
            facts = {"code": code, "code_parts": parts, "versions": {"torch": "2.8"}}
            path.write_text(json.dumps(with_checksum(json.loads(path.read_text()) | facts)))
    code, said = compared(capsys, one, other)
    assert code == 0
    assert f"code: aaa -> bbb ({told} changed)" in said
    assert "torch:" not in said
    assert "30 of 30 values of shared seeds are equal to the last digit: nothing differs." in said
    assert "No claim has another answer." in said


def test_a_flipped_claim_is_named_and_told_by_the_exit_code(tmp_path, capsys):
    one, other = sweep(tmp_path / "one", fixed=36.0), sweep(tmp_path / "other", fixed=44.0)
    code, said = compared(capsys, one, other)
    assert code == 1
    assert re.search(r"FLIPPED small_beats_large.*: supported -> not supported", said)
    assert "15 of 30 values" in said
    # Every seed of the fixed arm is 44 / 36 of what it was: seed by seed there is no scatter left.
    assert len(re.findall(r"fixed heads=\d worse by 22\.2\S* % \[22\.2\S*, 22\.2\S*\]", said)) == 3
    assert "standard heads" not in said


def test_without_shared_seeds_means_are_compared(tmp_path, capsys):
    one = sweep(tmp_path / "one")
    other = sweep(tmp_path / "other", seeds=(10, 11, 12, 13, 14))
    code, said = compared(capsys, one, other)
    assert code == 0
    assert "0 of 0 values of shared seeds" in said
    ends = [tuple(map(float, pair)) for pair in re.findall(r"\[([-\d.]+), ([-\d.]+)\]", said)]
    assert len(ends) == 6
    assert all(low < 0 < high for low, high in ends)


def test_plans_and_experiments_are_named_in_folders_or_without(tmp_path, capsys):
    folder = sweep(tmp_path / "one")
    names = [folder, "fig1", "1", folder / "fig1", folder / "1", folder / "plans" / "0001.json"]
    for name in names:
        code, said = compared(capsys, names[0], name, outputs=folder)
        assert (code, "nothing differs" in said) == (0, True), name
    for name in ("7", "fig3", "elsewhere/fig1"):
        with pytest.raises(UserError, match="expected"):
            compare(Console(), folder, str(folder), name)
