"""Cases with damaged outputs folders and crafted archives, read by every command that reads them.

A command may succeed or refuse in a sentence. It must not print a traceback, run for ever, write
outside its folder, or give a number that differs from the one that was measured.
"""

import csv
import hashlib
import io
import json
import os
import random
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.twins import PLANTED
from benchmarks.twins import arguments as twins
from sweeper.__main__ import main
from sweeper.store.archive import MANIFEST
from sweeper.store.files import as_json, with_checksum
from tests.faults.commands import Command, undisturbed, verdicts
from tests.faults.files import MEMORY
from tests.faults.sweep import Count, fork

PATIENCE_S = 60
MOST_BYTES = 64 * 10**6
NOT_MEASURED = ("state", "reason")  # words on a run, which damage may change
RETRAINED = (*NOT_MEASURED, "seconds", "tokens_per_second")
SWEEPS = 20  # one of so many damaged folders is also continued by sweep.py

Row = dict[str, str]


@dataclass(frozen=True)
class Victim:
    """A finished sweep that decided a claim, and the archives that were made of it.

    Attributes:
        line: the arguments of its sweep.
        outputs: its outputs folder.
        files: the archives by kind: results, bundle, archive.
        rows: its table, by arm, point and seed.
        answers: its verdicts.
    """

    line: list[str]
    outputs: Path
    files: dict[str, Path]
    rows: dict[tuple[str, ...], Row]
    answers: list[Any]


@contextmanager
def victim() -> Iterator[Victim]:
    """Train the sweep, pack it, train the pack, and bundle and archive the sweep."""
    with TemporaryDirectory(dir=MEMORY, ignore_cleanup_errors=True) as folder:
        place = Path(folder)
        outputs = place / "outputs"
        line = twins(place / "conf", [0], rates=PLANTED)
        undisturbed(outputs, line)
        [name] = {path.name.partition(".")[0] for path in (outputs / "tables").glob("*.csv")}
        packed = empty_of_results(outputs, place)
        files = {kind: place / f"{kind}.zip" for kind in ("pack", "bundle")}
        call(["pack", name, "-o", str(files["pack"]), "--outputs", str(packed)])
        subprocess.run(["unzip", "-q", str(files["pack"]), "-d", str(place)], check=True)
        trained = [sys.executable, "run.py"]
        subprocess.run(trained, cwd=place / "pack", check=True, stdout=subprocess.DEVNULL)
        files["results"] = place / "pack" / "results.zip"
        shutil.copytree(outputs, place / "archived")
        call(["archive", name, "--outputs", str(place / "archived")])
        [files["archive"]] = place.glob("archived/archives/*.zip")
        call(["bundle", name, "-o", str(files["bundle"]), "--outputs", str(outputs)])
        yield Victim(line, outputs, files, rows_of(outputs), answers_of(outputs))


def call(arguments: list[str]) -> None:
    """Run a command that must succeed in this process, which loads what its forks then share."""
    with redirect_stdout(io.StringIO()):
        assert main(arguments) == 0, arguments


def rows_of(outputs: Path) -> dict[tuple[str, ...], Row]:
    found: dict[tuple[str, ...], Row] = {}
    for path in (outputs / "tables").glob("*.csv"):
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                found[(row["arm"], row["point"], row["seed"])] = row
    return found


def answers_of(outputs: Path) -> list[Any]:
    """Return the verdicts without their numbers."""
    return [verdict[:3] for verdict in verdicts(outputs)]


def damaged_outputs(victim: Callable[[], Victim], seed: int, *, files: int) -> Count:
    """Damage a file of an outputs folder, then type every command that reads the folder."""
    count, rng, whole = Count("damaged outputs", seed), random.Random(seed), victim()
    kinds = files_by_kind(whole.outputs)
    for number in range(files):
        with TemporaryDirectory(dir=MEMORY, ignore_cleanup_errors=True) as folder:
            outputs = Path(folder) / "outputs"
            shutil.copytree(whole.outputs, outputs)
            for made in ("tables", "figures"):  # else a refused command leaves the right ones
                shutil.rmtree(outputs / made)
            where = outputs / rng.choice(kinds[rng.choice(sorted(kinds))])
            damage = rng.choice(sorted(DAMAGES))
            if where.exists():
                DAMAGES[damage](where, rng)
            said = f"{seed}/{number}: {damage} {where.relative_to(outputs)}"
            count.injected += 1
            read_all(count, whole, Path(folder), said)
            if number % SWEEPS == 0:
                continue_sweep(count, whole, outputs, said)
    return count


def files_by_kind(outputs: Path) -> dict[str, list[str]]:
    """Return the files below an outputs folder, as paths below it, by what they are."""
    found = defaultdict(list)
    for path in sorted(outputs.rglob("*")):
        name = str(path.relative_to(outputs))
        if path.is_file():
            parts = name.split("/")
            kind = parts[0] if parts[0] in ("code", "data", "figures") else parts[-1]
            found["plan" if parts[0] == "plans" else kind].append(name)
    return found


def read_all(count: Count, whole: Victim, folder: Path, said: str) -> None:
    """Type every command that reads outputs, and count what must not happen."""
    outputs, [name] = folder / "outputs", {path.stem for path in whole.outputs.glob("tables/*.csv")}
    again = folder / "again.zip"
    lines = {
        "status": ["status", "--json"],
        "collect": ["collect"],
        "report": ["report"],
        "bundle": ["bundle", name, "-o", str(again)],
        "judge": ["judge", str(again), "-o", str(folder / "judged")],
        "merge": ["merge", str(whole.files["results"])],
    }
    for word, line in lines.items():
        if word == "judge" and not again.exists():
            continue
        code = typed(count, folder, line, f"{said}: {word}", outputs)
        for made in {"collect": [outputs], "judge": [folder / "judged"]}.get(word, []):
            check_numbers(count, whole, made, code, f"{said}: {word}")


def check_numbers(
    count: Count,
    whole: Victim,
    made: Path,
    code: int,
    said: str,
    but: Collection[str] = NOT_MEASURED,
) -> None:
    """Count cells of tables that differ from what was measured, and verdicts that follow.

    `but`: columns that may differ.
    """
    rows = rows_of(made)
    wrong = [
        f"{key} {column} {cell!r} not {whole.rows.get(key, {}).get(column)!r}"
        for key, row in rows.items()
        for column, cell in row.items()
        if column not in but and cell and cell != whole.rows.get(key, {}).get(column)
    ]
    if rows == whole.rows and code == 0 and answers_of(made) != whole.answers:
        wrong.append(f"{answers_of(made)}")
    if wrong:
        count.wrong += 1
        complain(f"{said} is wrong ({code}): {wrong[:3]}")


def continue_sweep(count: Count, whole: Victim, outputs: Path, said: str) -> None:
    """Type the sweep again: it refuses in a sentence, or ends with the numbers measured before."""
    command = Command(outputs, whole.line)
    try:
        code = command.finish(PATIENCE_S * 2)
    except subprocess.TimeoutExpired:
        command.kill()
        count.hung += 1
        complain(f"{said}: sweep hung")
        return
    log = command.log()
    if code not in (0, 1, 2) or "Traceback" in log:
        count.complaints += 1
        complain(f"{said}: sweep ended with {code}: {log[-1500:]}")
    elif code == 0:
        check_numbers(count, whole, outputs, code, f"{said}: sweep", RETRAINED)
        rows = rows_of(outputs)
        if lost := [key for key in whole.rows if not rows.get(key, {}).get("test/perplexity")]:
            count.wrong += 1
            complain(f"{said}: the sweep says that it is done, without {lost[:3]}")


def typed(count: Count, folder: Path, line: Sequence[str], said: str, outputs: Path) -> int:
    """Run a command in a fork; count a traceback, an odd exit code, and a wait without end."""
    log = folder / "command.log"
    log.unlink(missing_ok=True)

    def work() -> int:
        signal.alarm(PATIENCE_S)  # which ends it
        resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_BYTES, MOST_BYTES))
        os.chdir(folder)
        return main([*line, "--outputs", str(outputs)])

    code = os.waitstatus_to_exitcode(os.waitpid(fork(work, log), 0)[1])
    text = log.read_text(errors="replace")
    if code == -signal.SIGALRM:
        count.hung += 1
        complain(f"{said} hung")
    elif "Traceback" in text or code not in (0, 1, 2) or "File too large" in text:
        count.complaints += 1
        complain(f"{said} ended with {code}: {text[-1500:]}")
    return code


def complain(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def flip(path: Path, rng: random.Random) -> None:
    """Flip up to eight bits."""
    content = bytearray(path.read_bytes() or b"\0")
    for _ in range(rng.randint(1, 8)):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


def cut(path: Path, rng: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size + 1)])


def zeros(path: Path, rng: random.Random) -> None:
    """Zero a stretch, as a file system does that lost a block."""
    content = bytearray(path.read_bytes())
    start, end = sorted((rng.randrange(len(content) + 1), rng.randrange(len(content) + 1)))
    content[start:end] = bytes(end - start)
    path.write_bytes(content)


def longer(path: Path, rng: random.Random) -> None:
    path.write_bytes(path.read_bytes() + rng.choice([b"\0", b"}", b"\n{}\n", rng.randbytes(99)]))


def missing(path: Path, rng: random.Random) -> None:
    path.unlink()


def replaced(path: Path, rng: random.Random) -> None:
    """Put a folder, a pipe, an empty file or a link to somewhere else in its place."""
    path.unlink()
    how = rng.randrange(4)
    if how == 0:
        path.mkdir()
    elif how == 1:
        os.mkfifo(path)
    elif how == 2:
        path.touch()
    else:
        path.symlink_to("/etc/passwd" if rng.random() < 0.5 else "nowhere")


def exchanged(path: Path, rng: random.Random) -> None:
    """Exchange the file with another of its name or folder, as a wrong copy does."""
    above = next(one for one in path.parents if one.name in ("outputs", "runs", "plans", "data"))
    others = [
        one
        for one in sorted(above.rglob(f"*{path.suffix}"))
        if one.is_file() and (one.name == path.name or one.parent == path.parent)
    ]
    other = rng.choice(others)
    content = path.read_bytes()
    path.write_bytes(other.read_bytes())
    other.write_bytes(content)


def edited(path: Path, rng: random.Random) -> None:
    """Delete, exchange or change fields of JSON, and leave its checksum or remove it."""
    try:
        value = json.loads(path.read_bytes())
    except ValueError:
        return flip(path, rng)
    edit(value, rng)
    if isinstance(value, dict) and rng.random() < 0.5:
        value.pop("sha256", None)
    path.write_text(json.dumps(value))
    return None


DAMAGES: dict[str, Callable[[Path, random.Random], object]] = {
    function.__name__: function
    for function in (flip, cut, zeros, longer, missing, replaced, exchanged, edited)
}
VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    10**400,
    1e300,
    "",
    "x" * 9999,
    "../../evil",
    "\0",
    [],
    {},
    [[[]]],
)


def edit(value: Any, rng: random.Random) -> None:
    """Delete, exchange or change a few fields of a JSON value."""
    for _ in range(rng.randint(1, 3)):
        places = list(fields(value))
        if not places:
            return
        holder, key = rng.choice(places)
        found = holder[key]
        match rng.choice(("delete", "exchange", "change", "replace")):
            case "delete":
                del holder[key]
            case "exchange":
                other, name = rng.choice([(h, k) for h, k in places if type(h[k]) is type(found)])
                holder[key], other[name] = deepcopy(other[name]), deepcopy(found)
            case "change" if isinstance(found, int | float):
                holder[key] = found * 2 + 1
            case _:
                holder[key] = rng.choice(VALUES)


def fields(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every field as the object or list that holds it, and its name or place."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from fields(value[key])


def crafted_archives(victim: Callable[[], Victim], seed: int, *, archives: int) -> Count:
    """Craft an archive as a stranger might, then type the commands that read it."""
    count, rng, whole = Count("crafted archives", seed), random.Random(seed), victim()
    with TemporaryDirectory(dir=MEMORY, ignore_cleanup_errors=True) as spare:
        clean = empty_of_results(whole.outputs, Path(spare))
        for number in range(archives):
            with TemporaryDirectory(dir=MEMORY, ignore_cleanup_errors=True) as place:
                folder = Path(place) / "deep" / "deeper"
                folder.mkdir(parents=True)
                (folder / "mine").write_text("mine")
                outputs = folder / "outputs"
                kind = rng.choice(("results", "bundle", "archive"))
                shutil.copytree(clean, outputs)
                path = folder / "crafted.zip"
                if kind == "archive":
                    path = outputs / "archives" / whole.files[kind].name
                    path.parent.mkdir()
                craft = rng.choice(sorted(CRAFTS))
                shutil.copy(whole.files[kind], path)
                CRAFTS[craft](path, rng)
                said = f"{seed}/{number}: {kind} with {craft}"
                count.injected += 1
                before = size_of(folder)
                line = {
                    "results": ["merge", str(path)],
                    "bundle": ["judge", str(path), "-o", str(folder / "judged")],
                    "archive": ["status"],
                }[kind]
                code = typed(count, folder, line, f"{said}: {line[0]}", outputs)
                if code and size_of(folder) - before > MOST_BYTES:
                    count.complaints += 1
                    complain(f"{said}: wrote {size_of(folder) - before} bytes")
                code = typed(count, folder, ["collect"], f"{said}: collect", outputs)
                if craft not in FORGED:
                    made = folder / "judged" if kind == "bundle" else outputs
                    check_numbers(count, whole, made, code, said, RETRAINED)
                known = {"mine", "outputs", "crafted.zip", "judged", "command.log"}
                outside = {p.name for p in folder.iterdir()} - known
                outside |= {p.name for p in (*folder.parent.iterdir(), *Path(place).iterdir())}
                if outside - {"deep", "deeper"} or (folder / "mine").read_text() != "mine":
                    count.overwritten += 1
                    complain(f"{said}: wrote outside: {outside}")
    return count


def empty_of_results(outputs: Path, spare: Path) -> Path:
    """Return a copy of an outputs folder whose runs are planned and not trained."""
    copy = spare / "planned"
    shutil.copytree(outputs, copy)
    for path in copy.glob("runs/*/*"):
        if path.name != "run.json":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for made in ("tables", "figures"):
        shutil.rmtree(copy / made)
    return copy


def size_of(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*"))


def header(path: Path, rng: random.Random) -> None:
    """Write another value into a field of a header of a zip."""
    content = bytearray(path.read_bytes())
    places = [found.start() for found in re.finditer(rb"PK(\x01\x02|\x03\x04|\x05\x06)", content)]
    place = rng.choice(places) + rng.randrange(4, 44, 2)
    value = rng.choice((0, 1, 9, 99, 255, 0x2001, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF))
    packed = struct.pack("<H", value & 0xFFFF) if value < 0x10000 else struct.pack("<I", value)
    content[place : place + len(packed)] = packed
    path.write_bytes(content)


def rewrite(path: Path, change: Callable[[dict[str, bytes], dict[str, Any]], None]) -> None:
    """Write the zip again with other files and another manifest, whose checksum is right."""
    with zipfile.ZipFile(path) as found:
        names = found.namelist()
        [top] = [name.removesuffix(MANIFEST) for name in names if name.endswith(MANIFEST)]
        files = {name.removeprefix(top): found.read(name) for name in names}
    manifest = json.loads(files.pop(MANIFEST))
    change(files, manifest)
    manifest.pop("sha256", None)
    files[MANIFEST] = as_json(with_checksum(manifest)).encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in files.items():
            made.writestr(top + name, content)


def renamed(path: Path, rng: random.Random) -> None:
    """Give a file, here and in the manifest, the name of a place elsewhere."""

    def change(files: dict[str, bytes], manifest: dict[str, Any]) -> None:
        name = rng.choice(sorted(manifest["files"]))
        evil = rng.choice(("../evil", "../../evil", "/tmp/evil", "a/../../../evil", "runs/../mine",
                           "e" * 300, ".", "..", "runs", "a\\..\\evil", "e\0vil"))  # fmt: skip
        files[evil] = files.pop(name)
        manifest["files"][evil] = manifest["files"].pop(name)

    rewrite(path, change)


def forged(path: Path, rng: random.Random) -> None:
    """Change fields of the manifest."""
    rewrite(path, lambda files, manifest: edit(manifest, rng))


def content(path: Path, rng: random.Random) -> None:
    """Change fields of a JSON file, and its checksum in the manifest."""

    def change(files: dict[str, bytes], manifest: dict[str, Any]) -> None:
        name = rng.choice([one for one in sorted(manifest["files"]) if one.endswith(".json")])
        value = json.loads(files[name])
        edit(value, rng)
        files[name] = json.dumps(value).encode()
        digest = hashlib.sha256(files[name]).hexdigest()
        manifest["files"][name] = {"size": len(files[name]), "sha256": digest}

    rewrite(path, change)


def bomb(path: Path, rng: random.Random) -> None:
    """Add some hundred megabytes of zeros; the manifest has their size, and not their checksum."""

    def change(files: dict[str, bytes], manifest: dict[str, Any]) -> None:
        name = rng.choice([one for one in sorted(manifest["files"]) if "/" in one])
        files[name] = bytes(200 * 10**6)
        manifest["files"][name]["size"] = len(files[name])

    rewrite(path, change)


def mode(path: Path, rng: random.Random) -> None:
    """Make a file of the zip a link, a pipe, a device or a folder."""
    with zipfile.ZipFile(path) as found:
        files = [(header, found.read(header)) for header in found.infolist()]
    changed, _ = rng.choice(files)
    changed.external_attr = rng.choice((0o120777, 0o010644, 0o020644, 0o060644, 0o040755)) << 16
    with zipfile.ZipFile(path, "w") as made:
        for header, data in files:
            made.writestr(header, data)


def tar(path: Path, rng: random.Random) -> None:
    """Put the files into a tar, which may be compressed, with links and names to elsewhere."""
    with zipfile.ZipFile(path) as found, tempfile.TemporaryDirectory() as folder:
        found.extractall(folder)
        with tarfile.open(path.with_suffix(".tar"), rng.choice(("w", "w:gz"))) as made:
            made.add(folder, arcname=rng.choice(("a", "../evil", "/tmp/evil")))
    path.with_suffix(".tar").rename(path)


CRAFTS: dict[str, Callable[[Path, random.Random], object]] = {
    **{name: DAMAGES[name] for name in ("flip", "cut", "zeros", "longer", "replaced")},
    **{one.__name__: one for one in (header, renamed, forged, content, bomb, mode, tar)},
}
FORGED = ("forged", "content", "renamed")
"""With checksums that are right: only its sender knows that it is not what was measured."""
