"""A bundle: judged elsewhere it says what it said at home; it is as it was written, or refused."""

from __future__ import annotations

import io
import json
import os
import shutil
import tarfile
from pathlib import Path

import pytest
from rich.console import Console

from sweeper.carry.archive import MANIFEST, write_archive
from sweeper.carry.bundle import write_bundle
from sweeper.carry.crate import METADATA
from sweeper.carry.rejudge import rejudge
from sweeper.results.collect import collect, write_tables
from sweeper.results.draw import write_figures
from sweeper.store.errors import UserError
from sweeper.store.files import FORMAT, as_json, with_checksum
from sweeper.store.runs import RunStore
from tests.sweeper.results.grids import FEW, figure1

CLAIMS = "tables/fig1.claims.json"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A small Figure 1 as it lies where it was trained, weights included."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
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
    return write_bundle(home, ["fig1"], home.parent / "fig1.tar")


def judged(bundle: Path, into: Path) -> tuple[int, str]:
    printed = io.StringIO()
    code = rejudge(Console(file=printed, width=300), bundle, into)
    return code, printed.getvalue()


def files_of(bundle: Path) -> dict[str, bytes]:
    with tarfile.open(bundle) as archive:
        members = {one.name.partition("/")[2]: one for one in archive}
        return {name: archive.extractfile(one).read() for name, one in members.items()}


def rewritten(bundle: Path, place: Path, change) -> Path:
    """The same bundle with other members: what `change` makes of (member, content)."""
    with tarfile.open(bundle) as source, tarfile.open(place, "w") as target:
        for member in source:
            changed = change(member, source.extractfile(member).read())
            target.addfile(changed[0], io.BytesIO(changed[1]))
    return place


def test_elsewhere_answers_and_figures_are_those_of_home(bundle, home, tmp_path, monkeypatch):
    at_home = tmp_path / "home"
    drawn = write_figures(at_home, write_tables(at_home, collect(home, ["fig1"])))
    moved = Path(shutil.copy(bundle, tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("socket.socket.connect", None)
    code, said = judged(moved, tmp_path / "judged")
    assert code == 0
    assert said.count("fig1: ") == 3
    assert "Every answer is that of the bundle." in said
    for path in drawn:
        assert (tmp_path / "judged" / "figures" / path.name).read_bytes() == path.read_bytes()
    for name in ("fig1.csv", "fig1.claims.json"):
        assert (tmp_path / "judged/tables" / name).read_bytes() == files_of(bundle)[
            f"tables/{name}"
        ]


def test_the_states_of_the_code_that_trained_go_along_and_no_others(bundle):
    found = {name: content for name, content in files_of(bundle).items() if "code/" in name}
    assert found == {
        "code/1a2b/REVISION": b"c0ffee-dirty-7\n",
        "code/1a2b/changes.diff": b"+ as it was\n",
    }


def test_equal_records_are_equal_bytes_and_weights_stay(bundle, home):
    again = write_bundle(home, ["fig1"], home.parent / "again" / "fig1.tar")
    assert again.read_bytes() == bundle.read_bytes()
    assert not [name for name in files_of(bundle) if "ckpt" in name]


def test_what_never_began_is_missing_there_as_at_home(home, tmp_path):
    outputs = Path(shutil.copytree(home, tmp_path / "outputs"))
    store = RunStore(outputs)
    never = store.run(max(store.ids())).path
    shutil.rmtree(never / "attempts")
    (never / "result.json").unlink()
    code, said = judged(write_bundle(outputs, ["fig1"], tmp_path / "fig1.tar"), tmp_path / "there")
    assert (code, "Every answer is that of the bundle" in said) == (0, True), said


def test_the_description_names_every_file_once_and_nothing_else(bundle):
    files = files_of(bundle)
    graph = json.loads(files[METADATA])["@graph"]
    by_id = {entity["@id"]: entity for entity in graph}
    assert len(by_id) == len(graph)
    parts = [part["@id"] for part in by_id["./"]["hasPart"]]
    assert sorted([*parts, METADATA]) == sorted(files)
    assert by_id[METADATA]["about"] == {"@id": "./"}
    action = by_id["#fig1"]
    assert {"@id": CLAIMS} in action["result"]
    named = [one["@id"] for key in ("object", "result", "instrument") for one in action[key]]
    assert named
    assert set(named) <= by_id.keys()


MADE = (MANIFEST, METADATA, "README.md", "requirements/lock.txt", CLAIMS, "tables/fig1.csv")
KINDS = (*MADE, "figures/fig1.png", "plans/0001.json", "run.json", "result.json", "attempt.json")


@pytest.mark.parametrize("kind", KINDS)
def test_one_flipped_byte_is_refused_by_name(bundle, tmp_path, kind):
    [name, *_] = [name for name in files_of(bundle) if name.endswith(kind)]

    def flip(member, content):
        if member.name.endswith(f"/{name}"):
            middle = len(content) // 2
            content = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
        return member, content

    damaged = rewritten(bundle, tmp_path / "fig1.tar", flip)
    with pytest.raises(UserError, match=rf"fig1\.tar cannot be used: .*{kind}"):
        judged(damaged, tmp_path / "judged")
    assert not (tmp_path / "judged").exists()


def test_digests_without_their_seal_are_refused(bundle, tmp_path):
    def unseal(member, content):
        if member.name.endswith(MANIFEST):
            manifest = json.loads(content)
            del manifest["sha256"]
            content = as_json(manifest).encode()
            member.size = len(content)
        return member, content

    with pytest.raises(UserError, match=MANIFEST):
        judged(rewritten(bundle, tmp_path / "fig1.tar", unseal), tmp_path / "judged")


@pytest.mark.parametrize("name", ["../outside", "/outside", "runs/../../outside"])
def test_nothing_is_written_outside(bundle, tmp_path, name):
    manifest = {"format": FORMAT, "kind": "bundle", "experiments": [], "code": []}
    text = as_json(with_checksum({**manifest, "files": {name: "0" * 64}})).encode()
    with tarfile.open(tmp_path / "b.tar", "w") as archive:
        for path, content in ((f"b/{MANIFEST}", text), (f"b/{name}", b"harm")):
            member = tarfile.TarInfo(path)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    with pytest.raises(UserError):
        judged(tmp_path / "b.tar", tmp_path / "judged")
    assert [path.name for path in tmp_path.iterdir()] == ["b.tar"]


def test_a_link_is_refused(bundle, tmp_path):
    def link(member, content):
        if member.name.endswith(CLAIMS):
            member.type, member.linkname, member.size, content = tarfile.SYMTYPE, "/etc", 0, b""
        return member, content

    with pytest.raises(UserError, match=r"fig1\.claims\.json"):
        judged(rewritten(bundle, tmp_path / "fig1.tar", link), tmp_path / "judged")


def test_another_answer_is_told_and_told_by_the_exit_code(bundle, tmp_path):
    files = files_of(bundle)
    manifest = json.loads(files.pop(MANIFEST))
    claims = json.loads(files[CLAIMS])
    first, second, _ = claims["verdicts"]
    before, first["verdict"] = first["verdict"], "not heard of"
    second["numbers"]["contrasts"] = []
    files[CLAIMS] = as_json(claims).encode()
    about = {key: manifest[key] for key in ("kind", "experiments", "code")}
    [changed] = write_archive(tmp_path / "fig1.tar", files, about, None)
    code, said = judged(changed, tmp_path / "judged")
    assert code == 1
    assert (
        f"{first['claim']}, {first['measure']}: not heard of in the bundle, {before} here" in said
    )
    assert said.count("with other numbers here") == 1
    assert "An answer differs." in said


def test_a_pack_is_no_bundle(tmp_path):
    [pack] = write_archive(tmp_path / "sweep.tar", {}, {"kind": "pack"}, None)
    with pytest.raises(UserError, match="is a pack, not a bundle"):
        judged(pack, tmp_path / "judged")
