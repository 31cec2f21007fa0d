"""Packs of planned runs for another machine, and the merge of their results.

A pack holds records, prepared data and the code that trains. There, `run.py` trains the runs and
writes results.zip, which `merge` puts where the runs would be if they had been trained here.
"""

import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from sweeper.size_server import SizeServer
from sweeper.store import registry
from sweeper.store.archive import (
    BLOCK,
    MANIFEST,
    Archive,
    ArchiveError,
    Content,
    files_below,
    write_archive,
)
from sweeper.store.attempts import Cause
from sweeper.store.code import Code, needed
from sweeper.store.errors import UserError, as_typed, invalid_value, sanitize
from sweeper.store.files import (
    PLAIN,
    make_directory,
    new_file,
    present,
    publish,
    read_bytes,
    sync_directory,
    write_all,
)
from sweeper.store.identity import digest_of, identity
from sweeper.store.liveness import held
from sweeper.store.runs import Run, RunStore, State

MEGABYTE = 10**6
LEAST_MB = 0.01
ENTRY = "sweeper/export/entry.py"
NEEDS = ("torch", "numpy", "pydantic", "pytorch-lightning")
"""Names, as pip knows them, of the packages that a job imports."""

CUT_OFF = json.dumps({"cause": Cause.INTERRUPTED, "message": "cut off", "traceback": ""}) + "\n"
"""The exit.json of an attempt that has none: another machine cannot know that it ended."""

_RUN_FILE = re.compile(r"[^/]+\.json|attempts/\d{4,9}/(?:[^/]+|(checkpoints)/[^/]+)")

_USE = {
    "archive": "unzip it in the outputs folder that it comes from",
    "bundle": f"judge it with {as_typed('judge')}",
    "pack": "unzip it where its runs are to be trained, start run.py there, and merge the "
    "results.zip that run.py writes",
    "results": f"merge it with {as_typed('merge')}",
}

_WRITER = {"bundle": as_typed("bundle"), "results": "run.py of a pack"}

README = """\
# {name}

Planned training runs ({runs}) of {experiments}, with their data and the code that trains them.

    python run.py

trains the runs on the GPUs of this machine, or on its cores if it has none. Parents start first,
then the longest. After a stop or a crash the same command continues. `python run.py --help` lists
the options. At the end `results.zip` is next to this file. Copy it home; there,

    {merge} results.zip

puts the runs where they would be if they had been trained there.

Needed here: Python 3.11 or newer and these packages (in brackets the versions at home): {needs}.
The same versions on the same kind of processor give the same bits. No network is needed.
{wheels}"""
NO_WHEELS = """
run.py names the packages that are missing. If this machine cannot reach a package index, pack again
with `--python 3.12-x86_64`, the Python and the processor here.
"""
WHEELS = """
`wheels/` has packages that may be missing here; run.py uses those that are.
"""
LACKED = "pydantic"
"""The package of NEEDS that a machine with PyTorch, Lightning and tokenizers may lack."""


def check_output(path: Path, max_mb: float | None = None) -> None:
    """Raise UserError unless an export can be written to `path`, in parts of `max_mb`."""
    if max_mb is not None and not LEAST_MB <= max_mb < float("inf"):
        remedy = "leave it out for one file"
        raise invalid_value("--max-mb", max_mb, f"a number of at least {LEAST_MB}", remedy)
    for one in (path, *parts_of(path)):
        if os.path.lexists(one) and not stat.S_ISREG(one.lstat().st_mode):
            raise invalid_value("-o", one, "a new name or a regular file", "choose another name")
    if not PLAIN.fullmatch(path.name) or path.suffix != ".zip":
        expected = "a name of letters, digits, '.', '_' and '-' that ends in .zip"
        raise invalid_value("-o", path, expected, "choose such a name, as in -o fig1.zip")


def parts_of(path: Path) -> list[Path]:
    """Return what is named like a part of an export: `cat` would join it to the parts."""
    name = re.compile(re.escape(path.name) + r"\.\d{3,}")
    return [one for one in path.parent.glob("*") if name.fullmatch(one.name)]


def write_export(
    path: Path,
    kind: str,
    files: Mapping[str, Content],
    about: Mapping[str, Any],
    max_mb: float | None = None,
) -> list[Path]:
    """Write files in a folder named like the archive; cut an archive larger than `max_mb`.

    Return the archive, or its parts: `<path>.001` and so on, which `cat` joins.
    """
    check_output(path, max_mb)
    try:
        write_archive(path, kind, files, about, top=f"{path.stem}/")
        for earlier in parts_of(path):
            earlier.unlink()
        size, limit = path.stat().st_size, int((max_mb or 0) * MEGABYTE)
        if not limit or size <= limit:
            return [path]
        count = -(-size // limit)
        digits = max(3, len(str(count)))
        names = [f"{path.name}.{number:0{digits}d}" for number in range(1, count + 1)]
        parts = [path.with_name(name) for name in names]
        with path.open("rb") as source:
            for part in parts:
                with new_file(part) as descriptor:
                    left = limit
                    while block := source.read(min(BLOCK, left)):
                        write_all(descriptor, block)
                        left -= len(block)
        path.unlink()
    except OSError as error:
        inner = error.filename if error.filename != str(path) else None
        where = f"{sanitize(inner)}: " if inner else ""
        reason = f"{sanitize(path)} cannot be written ({where}{error.strerror or error})"
        raise UserError(f"{reason}; repair that, or name another file with -o.") from error
    return parts


Manifest = TypeVar("Manifest", bound=BaseModel)


def parse_manifest(path: Path, value: Mapping[str, Any], model: type[Manifest]) -> Manifest:
    """Return the keys of a manifest that only its kind has; UserError if they are wrong."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        first = error.errors()[0]
        place = sanitize(".".join(map(str, first["loc"])), 100)
        reason = f"{sanitize(path)} cannot be used: {MANIFEST}.{place}: {first['msg']}"
        raise UserError(f"{reason}; copy it here again.") from error


@contextmanager
def open_export(path: Path, kind: str, model: type[Manifest]) -> Iterator[tuple[Archive, Manifest]]:
    """Open an archive of a kind, and its manifest.

    Raise UserError if it is of another kind, or if reading it, here or in the block, fails.
    """
    if not path.exists():
        remedy = f"name the file that {_WRITER[kind]} wrote"
        raise UserError(f"{sanitize(path)} does not exist; {remedy}.")
    archive = Archive(Path(os.path.realpath(path)))
    try:
        if (found := archive.manifest["kind"]) != kind:
            use = _USE.get(found, "use the version that wrote it")
            reason = f"{sanitize(path)} is of kind {sanitize(found, 40)}, not {kind}"
            raise UserError(f"{reason}: {use}.")
        yield archive, parse_manifest(path, archive.manifest, model)
    except ArchiveError as error:
        remedy = "copy it here again"
        raise UserError(f"{sanitize(path)} cannot be used: {error.reason}; {remedy}.") from error
    except OSError as error:
        where = sanitize(error.filename or path)
        raise UserError(f"{where}: {error.strerror or error}.") from error
    finally:
        archive.close()


def run_files(run: Run, *, weights: bool = True) -> dict[str, Content]:
    """Return the files of a run that is not in training, by their names below the outputs folder.

    Without `weights` leave out checkpoints and learned weights.
    """
    found: dict[str, Content] = {}
    for name in files_below(run.path):
        match = _RUN_FILE.fullmatch(name)
        if match and (weights or not match[1]):
            found[f"runs/{run.id}/{name}"] = run.path / name
    done_by = (run.result() or {}).get("attempt")
    for attempt in run.attempts():
        if attempt.exit() is None and attempt.number != done_by:
            found[f"runs/{run.id}/attempts/{attempt.path.name}/exit.json"] = CUT_OFF.encode()
    return found


def unfinished(outputs: Path, plans: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return cost, parent and label of the unfinished runs of planned experiments.

    The runs that they start from are included, unless these are done. Raise UserError if one of
    them is in training or was forgotten, or if all are done.
    """
    store, found = RunStore(outputs), {}
    for experiment, plan in plans.items():
        for point in plan["points"]:
            id = point["run"] if point["experiment"] == experiment else None
            while id and id not in found:
                run = store.run(id)
                if run.status().state is State.DONE:  # a typed parent, too, which is of no plan
                    break
                if not present(run.path / "run.json"):
                    remedy = "name the overrides of its sweep instead, which plan it again"
                    raise UserError(f"{id} of {sanitize(experiment)} was forgotten; {remedy}.")
                planned = plan["runs"][id]
                size, names = planned["size"], run.record()["names"]
                found[id] = {
                    "cost": size["tokens"] * size["flops_per_token"],
                    "parent": planned["parent"],
                    "label": f"{names['experiment']}/{names['arm']} {names['label']}",
                }
                id = planned["parent"]
    if busy := store.in_training(found):
        label = sanitize(found[busy]["label"])
        raise UserError(f"{busy} ({label}) is in training here; stop that first.")
    if not found:
        raise UserError(f"all runs of {', '.join(plans)} are done; there is nothing to pack.")
    return found


def wheels_in(folder: Path) -> list[Path]:
    """Return the wheels in a folder; UserError if it has none."""
    found = sorted(folder.glob("*.whl"))
    if not found:
        remedy = "fill it with pip download, or leave the option out"
        raise invalid_value("--wheels", folder, "a folder that contains *.whl files", remedy)
    return found


def wheels_for(machine: str, folder: Path) -> list[Path]:
    """Download wheels of LACKED, and of what it needs, for a Python and a processor of Linux.

    Raise UserError if `machine` is not like "3.12-x86_64", or if pip finds none.
    """
    if not (found := re.fullmatch(r"(3\.\d{2})-(x86_64|aarch64)", machine)):
        expected = "a Python and a processor, x86_64 or aarch64"
        raise invalid_value("--python", machine, expected, "for example 3.12-x86_64")
    python, processor = found.groups()
    kinds = [f"--platform={kind}_{processor}" for kind in ("manylinux2014", "manylinux_2_28")]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:"]
    command += [f"--python-version={python}", "--implementation=cp", *kinds, f"--dest={folder}"]
    done = subprocess.run(
        [*command, f"{LACKED}=={version(LACKED)}"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        reason = sanitize((done.stderr.strip().splitlines() or ["pip failed"])[-1], 200)
        remedy = "leave it out, or give --wheels with a folder of wheels"
        raise UserError(f"--python={machine}: no wheels of {LACKED} ({reason}); {remedy}.")
    return wheels_in(folder)


def write_pack(
    path: Path,
    store: RunStore,
    runs: Mapping[str, Mapping[str, Any]],
    about: Mapping[str, Any],
    process: SizeServer,
    *,
    wheels: Sequence[Path] = (),
    max_mb: float | None = None,
) -> list[Path]:
    """Write a pack of `unfinished` runs, whose data are prepared; return the files written.

    Args:
        about: the names of the `experiments`, the `options` of the sweep and the launcher, and the
            device hours that were spent on the experiments here (`spent_h`).
    """
    needs = {name: version(name) for name in NEEDS}
    readme = README.format(
        name=path.stem,
        runs=len(runs),
        experiments=", ".join(about["experiments"]),
        needs=", ".join(f"{name} ({number})" for name, number in needs.items()),
        wheels=WHEELS if wheels else NO_WHEELS,
        merge=as_typed("merge"),
    )
    configs = [store.run(id).record()["config"] for id in runs]
    files: dict[str, Content] = {
        "README.md": readme.encode(),
        "run.py": (registry.ROOT / ENTRY).read_bytes(),
        **{f"code/{name}": content for name, content in needed(Code.read(), configs).items()},
        # A wheel may be a link, which write_archive refuses.
        **{f"wheels/{wheel.name}": Path(os.path.realpath(wheel)) for wheel in wheels},
    }
    for id in {*runs, *(planned["parent"] for planned in runs.values() if planned["parent"])}:
        found = run_files(store.run(id))  # parents that are done, too: what they have learned
        files |= {f"outputs/{name}": content for name, content in found.items()}
    data = {digest_of([config["data"], config["task"]]): config for config in configs}
    for answer in process.ask([{"op": "data", "config": config} for config in data.values()]):
        if "error" in answer:
            raise UserError(str(answer["error"]))
        folder = store.outputs / "data" / answer["prepared"]
        for name in files_below(folder):
            files[f"outputs/data/{answer['prepared']}/{name}"] = folder / name
    return write_export(path, "pack", files, {**about, "needs": needs, "runs": runs}, max_mb)


class Results(BaseModel):
    """The keys of the manifest of results.zip."""

    runs: list[str]


@dataclass
class Merged:
    """The runs of a merge by what became of them; `kept` has sentences on runs left unchanged."""

    done: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    known: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)

    def summary(self) -> str:
        """Return the counts in one sentence."""
        counts = {
            "not done there": self.unfinished,
            "known before": self.known,
            "left as they are here": self.kept,
        }
        others = [f", {len(runs)} {words}" for words, runs in counts.items() if runs]
        return f"runs from elsewhere: {len(self.done)} done{''.join(others)}"


def merge(outputs: Path, path: Path) -> Merged:
    """Put the runs of a results file where they would be if they had been trained here.

    A run that was also trained here since it was packed stays unchanged. Raise UserError, and merge
    nothing, if the file is damaged or has a run that was not planned here.
    """
    with open_export(path, "results", Results) as (archive, manifest):
        for name in archive.manifest["files"]:
            folder, _, rest = name.partition("/")
            id, _, rest = rest.partition("/")
            if folder != "runs" or id not in manifest.runs or not _RUN_FILE.fullmatch(rest):
                wrong = sanitize(name, 100)
                raise UserError(f"{sanitize(path)}: {wrong} is not a file of its runs.")
        store = RunStore(outputs)
        store.check_writable()
        with held(outputs / ".merge"):
            for left in outputs.glob(".merge.*.tmp"):  # of a merge that was killed
                shutil.rmtree(left)
            # On the same file system, so that attempts only have to be renamed.
            with tempfile.TemporaryDirectory(dir=outputs, prefix=".merge.", suffix=".tmp") as made:
                archive.unpack(Path(made))
                there = RunStore(Path(made))
                pairs = [(store.run(id), there.run(id)) for id in dict.fromkeys(manifest.runs)]
                for ours, theirs in pairs:
                    _check(path, ours, theirs)
                store.in_training(manifest.runs)  # waits where only heartbeats tell
                merged = Merged()
                for ours, theirs in pairs:
                    _merge(ours, theirs, merged)
    return merged


def _check(path: Path, here: Run, there: Run) -> None:
    """Raise UserError if a run was not planned here, or if its files contradict each other."""
    if not present(here.path / "run.json"):
        raise UserError(
            f"{sanitize(path)} has run {here.id}, which was never planned under "
            f"{sanitize(here.outputs)}; merge it where it was packed."
        )
    ours, theirs = (digest_of(identity(run.record()["config"])) for run in (here, there))
    result = there.result()
    numbers = [attempt.number for attempt in there.attempts()]
    if ours != theirs or (result is not None and result["attempt"] not in numbers):
        reason = "another config" if ours != theirs else "a result without its attempt"
        raise UserError(f"{sanitize(path)} has {reason} for run {here.id}; copy it here again.")


def _merge(here: Run, there: Run, merged: Merged) -> None:
    """Add to a run the attempts that are not here, each in one step, and its result last."""
    status, result = here.status(), there.result()
    # attempt.json says which process made an attempt.
    ours, theirs = (
        {attempt.number: read_bytes(attempt.path / "attempt.json") for attempt in run.attempts()}
        for run in (here, there)
    )
    done = status.state is State.DONE
    if done and (here.result() or {}).get("metrics") == (result or {}).get("metrics"):
        if missing := _missing_weights(here, there):
            if not here.path.is_dir():
                words = "lies in an archive without its weights; unzip that in the outputs folder"
                merged.kept.append(f"{here.id} {words}, then merge again")
                return
            for path, place in missing.items():
                make_directory(place.parent)
                path.rename(place)
                sync_directory(place.parent)
        (merged.done if missing else merged.known).append(here.id)
    elif result is None and theirs.items() <= ours.items():  # an earlier file of the same runs
        merged.known.append(here.id)
    elif done or status.state is State.RUNNING or ours.items() - theirs.items():
        merged.kept.append(f"{here.id} was trained here, too, since it was packed: {status.reason}")
    else:
        folder = here.path / "attempts"
        make_directory(folder)
        for number in sorted(theirs.keys() - ours.keys()):
            make_directory(there.attempt(number).checkpoint_dir)
            there.attempt(number).path.rename(here.attempt(number).path)
        sync_directory(folder)
        names = sorted(path.name for path in there.path.glob("*.json") if path.name != "run.json")
        for name in sorted(names, key=lambda name: name == "result.json"):
            publish(here.path / name, read_bytes(there.path / name) or b"")
        (merged.unfinished if result is None else merged.done).append(here.id)


def _missing_weights(here: Run, there: Run) -> dict[Path, Path]:
    """Return the weights that a finished run lacks here, with their places."""
    ours, theirs = here.result() or {}, there.result() or {}
    if ours.get("weights_sha256") != theirs.get("weights_sha256"):
        return {}  # it has learned something else
    folder = here.attempt(ours["attempt"]).checkpoint_dir
    found = {
        path: folder / path.name for path in there.attempt(theirs["attempt"]).checkpoint_files("*")
    }
    return {path: place for path, place in found.items() if not present(place)}
