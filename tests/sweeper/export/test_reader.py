"""The reader of archives: anything wrong is one sentence, and nothing is written elsewhere."""

import hashlib
import os
import random
import shutil
import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from pydantic import BaseModel

from sweeper.export.pack import open_export, write_export
from sweeper.store import archive
from sweeper.store.archive import MANIFEST
from sweeper.store.errors import UserError
from sweeper.store.files import as_json, with_checksum

FILES = {"README.md": b"results of a sweep\n" * 9, "runs/a/run.json": b"{}"}
Members = dict[str, tuple[zipfile.ZipInfo, bytes]]
Change = Callable[[Members], None]


class NoKeys(BaseModel):
    """The keys of a manifest that this test is not about."""


def read(path: Path) -> dict[str, bytes]:
    """The files of an archive, unpacked beside it as a command does that."""
    folder = path.parent / "unpacked"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    with open_export(path, "bundle", NoKeys) as (found, _):
        found.unpack(folder)
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def refuse(path: Path, *words: str) -> None:
    with pytest.raises(UserError) as refused:
        read(path)
    said = str(refused.value)
    assert said.startswith(str(path)), said
    assert all(word in said for word in words), said
    assert len(said.splitlines()) == 1
    assert "Errno" not in said
    assert {p.name for p in path.parent.iterdir()} <= {"b.zip", "unpacked"}


def listed(files: dict[str, bytes]) -> dict[str, dict[str, object]]:
    return {
        name: {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in files.items()
    }


def manifest(files: object = None, **keys: object) -> bytes:
    """A manifest with a checksum, as whoever crafts an archive would write it."""
    about = listed(FILES) if files is None else files
    value = {"format": 2, "kind": "bundle", "files": about, **keys}
    return as_json(with_checksum(value)).encode()


def write(path: Path, members: Members) -> Path:
    with zipfile.ZipFile(path, "w") as made:
        for header, content in members.values():
            made.writestr(header, content)
    return path


def good() -> Members:
    members: Members = {}
    for name, content in {**FILES, MANIFEST: manifest()}.items():
        put(f"b/{name}", content)(members)
    return members


def put(name: str, content: bytes | None = None, key: str = "", **header: int) -> Change:
    """Put a file into an archive, or give the one of this name another header."""

    def change(members: Members) -> None:
        info = zipfile.ZipInfo(name)
        for field, value in header.items():
            setattr(info, field, value)
        known = FILES.get(name.removeprefix("b/"), b"")
        members[key or name] = (info, known if content is None else content)

    return change


def drop(name: str) -> Change:
    return lambda members: members.pop(name) and None


def about(content: bytes) -> Change:
    return put(f"b/{MANIFEST}", content)


def named(name: str) -> Change:
    """Put a file of this name into an archive, and into its manifest."""

    def change(members: Members) -> None:
        members.clear()
        put(f"b/{name}", b"evil")(members)
        about(manifest(listed({name: b"evil"})))(members)

    return change


README, MODE = "b/README.md", 0o600
TEXT = FILES["README.md"]


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (put(README, external_attr=(stat.S_IFLNK | MODE) << 16), "README.md is not a regular file"),
        (put(README, external_attr=(stat.S_IFIFO | MODE) << 16), "README.md is not a regular file"),
        (put("b/runs/"), "runs/ is not a regular file"),
        (put(README, compress_type=zipfile.ZIP_LZMA), "another way than deflate"),
        (put(README, key="again"), "two of its files have one name"),
        (put(README, TEXT.upper()), "README.md was changed"),
        (put(README, TEXT + b"!"), "README.md has another size"),
        (put("b/evil"), "evil is not in its manifest"),
        (put("c/README.md"), "c/README.md is not in its manifest"),
        (drop(README), "README.md is missing"),
        (drop(f"b/{MANIFEST}"), "it has no manifest.json"),
        *((named(name), "expected at most 128 letters") for name in (
            "../evil", "/evil", "a//evil", "a/../../evil", "a\\evil", "C:evil", "e\nvil",
        )),
        (named("e" * 999), "name=eeee"),
        (about(b""), "cannot be used"),
        (about(b"[" * 10**6), "recursion"),
        (about(b"[]"), "cannot be used"),
        (about(b'{"format": NaN}'), "format"),
        (about(b'{"format": 1' + b"0" * 9999 + b"}"), "cannot be used"),
        (about(manifest(format=3)), "of format 3, not 2: use the version that wrote it"),
        (about(manifest(format=1, runs=[7])), "manifest.json.runs is not what it should be"),
        (about(manifest().replace(b"bundle", b"bungle")), "manifest.json was changed"),
        (about(manifest([])), "manifest.json.files is not what it should be"),
        (about(manifest({"README.md": {"size": "1", "sha256": "0" * 64}})), "README.md.size"),
        (about(manifest({"README.md": {"size": 1, "sha256": "\n"}})), "sha256"),
        (about(manifest(kind=["bundle"])), "manifest.json.kind is not what it should be"),
    ],
)  # fmt: skip
def test_a_crafted_archive_is_refused(tmp_path, change, words):
    members = good()
    assert read(write(tmp_path / "b.zip", members)) == FILES
    change(members)
    refuse(write(tmp_path / "b.zip", members), words)


def patched(path: Path, signature: bytes, offset: int, value: bytes) -> Path:
    """The archive with other bytes in the first (of the end: last) header of a kind."""
    content = bytearray(path.read_bytes())
    at = content.rindex(signature) if signature == b"PK\5\6" else content.index(signature)
    content[at + offset : at + offset + len(value)] = value
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("signature", "offset", "value", "words"),
    [
        (b"PK\1\2", 8, b"\1\0", "is encrypted"),
        (b"PK\1\2", 10, b"\x63\0", "another way than deflate"),
        (b"PK\1\2", 6, b"\xff\0", "version"),
        (b"PK\1\2", 24, struct.pack("<I", 2**31), "two sizes"),
        (b"PK\1\2", 42, struct.pack("<I", 2**31), ""),
        (b"PK\3\4", 0, b"none", "magic"),
        (b"PK\5\6", 12, struct.pack("<I", 2**31), ""),
        (b"PK\5\6", 16, struct.pack("<I", 2**31), ""),
    ],
)
def test_a_damaged_header_is_refused(tmp_path, signature, offset, value, words):
    refuse(patched(write(tmp_path / "b.zip", good()), signature, offset, value), words)


def test_a_huge_directory_is_refused_before_it_is_read(tmp_path):
    path = write(tmp_path / "b.zip", good())
    end = path.read_bytes()[-22:]
    with path.open("r+b") as file:  # sparse: its directory has 1 GB of nothing
        file.truncate(10**9)
        file.seek(0, os.SEEK_END)
        file.write(end[:12] + struct.pack("<II", 10**9, 0) + end[20:])
    refuse(path, "a header gives a length of 1000000000 bytes")


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        ("MAX_DEFLATED_BYTES", "README.md is too large: 171 bytes uncompressed"),
        ("MAX_BYTES", "it is too large"),
        ("MAX_MANIFEST_BYTES", "manifest.json is too large"),
        ("the disk", "it needs 173 bytes on a disk with 0 free"),
    ],
)
def test_sizes_are_checked_before_anything_is_written(tmp_path, monkeypatch, limit, words):
    members = good()
    put(README, compress_type=zipfile.ZIP_DEFLATED)(members)
    path = write(tmp_path / "b.zip", members)
    assert read(path) == FILES
    if limit == "the disk":
        monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=0))
    else:
        monkeypatch.setattr(archive, limit, 100)
    refuse(path, words)
    assert not any((tmp_path / "unpacked").iterdir())


def test_a_compressed_file_that_is_longer_than_its_header_says_is_refused(tmp_path):
    members = good()
    put(README, TEXT * 1000, compress_type=zipfile.ZIP_DEFLATED)(members)
    path = write(tmp_path / "b.zip", members)
    patched(path, b"PK\1\2", 24, struct.pack("<I", len(TEXT)))
    refuse(path)


def test_what_is_cut_short_or_flipped_anywhere_is_refused_or_read_as_it_was(tmp_path):
    whole = write(tmp_path / "b.zip", good()).read_bytes()
    chance, said = random.Random(7), []
    for _ in range(100):
        damaged = bytearray(whole)
        for _ in range(chance.choice((0, 1, 3))):
            damaged[chance.randrange(len(whole))] = chance.randrange(256)
        if damaged == whole:
            damaged = damaged[: chance.randrange(len(whole))]
        (tmp_path / "b.zip").write_bytes(damaged)
        try:
            assert read(tmp_path / "b.zip") == FILES
        except UserError as error:
            said.append(str(error))
    assert len(said) > 30
    assert not [one for one in said if len(one.splitlines()) != 1]


def tar(path: Path) -> None:
    with tarfile.open(path, "w") as made:
        made.addfile(tarfile.TarInfo("b/manifest.json"))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda path: None, "does not exist; name the file"),
        (Path.mkdir, "it is not a regular file"),
        (os.mkfifo, "it is not a regular file"),
        (Path.touch, "not a zip file"),
        (lambda path: path.write_bytes(b"not a zip at all" * 1000), "not a zip file"),
        (tar, "it is a tar: use the earlier version that wrote it"),
        (lambda path: path.symlink_to(path), ""),
    ],
    ids=["nothing", "folder", "pipe", "empty", "bytes", "tar", "link to itself"],
)
def test_what_is_no_archive_is_refused_and_a_pipe_holds_nobody_up(tmp_path, make, words):
    make(tmp_path / "b.zip")
    refuse(tmp_path / "b.zip", words)


def test_a_link_to_an_archive_and_a_renamed_one_are_read(tmp_path):
    write(tmp_path / "b.zip", good()).rename(tmp_path / "c.zip")
    (tmp_path / "d.zip").symlink_to(tmp_path / "c.zip")
    assert read(tmp_path / "d.zip") == FILES


@pytest.mark.parametrize("limit", [None, 0.01])
def test_parts_join_to_the_whole_and_earlier_parts_go(tmp_path, limit):
    files = {"README.md": bytes(25_000)}
    [whole] = write_export(tmp_path / "whole" / "b.zip", "bundle", files, {})
    for number in ("001", "009", "1234"):
        (tmp_path / f"b.zip.{number}").write_bytes(b"of an earlier time")
    paths = write_export(tmp_path / "b.zip", "bundle", files, {}, limit)
    assert sorted(tmp_path.glob("b.zip*")) == paths
    assert len(paths) == (3 if limit == 0.01 else 1)
    joined = b"".join(path.read_bytes() for path in paths)
    assert joined == whole.read_bytes()
    assert all(path.stat().st_size <= (limit or 1) * 10**6 for path in paths)


@pytest.mark.parametrize(
    ("name", "limit", "words"),
    [
        *(("b.zip", limit, "--max-mb") for limit in (0, -1, 0.0000001, float("nan"), float("inf"))),
        ("b.tar", None, "ends in .zip"),
        ("my bundle.zip", None, "a name of letters"),
        ("pipe.zip", None, "a new name or a regular file"),
        ("link.zip", None, "a new name or a regular file"),
        ("folder.zip", None, "a new name or a regular file"),
        ("parts.zip", None, "parts.zip.001: expected a new name or a regular file"),
    ],
)
def test_an_export_goes_to_a_new_name_or_a_regular_file(tmp_path, name, limit, words):
    os.mkfifo(tmp_path / "pipe.zip")
    os.mkfifo(tmp_path / "parts.zip.001")
    (tmp_path / "link.zip").symlink_to("/dev/null")
    (tmp_path / "folder.zip").mkdir()
    before = sorted(tmp_path.iterdir())
    with pytest.raises(UserError, match=words):
        write_export(tmp_path / name, "bundle", FILES, {}, limit)
    assert sorted(tmp_path.iterdir()) == before
    assert stat.S_ISFIFO((tmp_path / "pipe.zip").lstat().st_mode)
