"""Train the runs of this folder: `python run.py`; the same command continues after a stop.

    python run.py hydra.launcher.jobs_per_device=2 hydra.sweeper.on_oom=halve

The results are written to results.zip next to this file. Ctrl-C and SIGTERM save first.
"""

# It imports nothing of the pack before it has verified the pack.
import hashlib
import json
import os
import platform
import sys
import zipfile
from importlib import invalidate_caches
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
OLDEST = (3, 11)
# pack downloads wheels for Linux alone.
PACK_AGAIN = (
    f"--python {'.'.join(platform.python_version_tuple()[:2])}-{platform.machine()}"
    if sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64")
    else "--wheels FOLDER"
)


def fault() -> str:
    """Return a sentence on why this folder cannot be used; empty if it can."""
    if sys.version_info < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        return f"this is Python {sys.version.split()[0]}: run it with {oldest} or newer."
    try:
        manifest = json.loads((HERE / "manifest.json").read_text("utf-8"))
        files = {name: about["sha256"] for name, about in manifest["files"].items()}
        needs = dict(manifest["needs"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"manifest.json is not what was packed ({error}); unpack it again."
    for name, expected in files.items():
        try:
            found = hashlib.sha256((HERE / name).read_bytes()).hexdigest()
        except OSError:
            found = ""
        if found != expected and not superseded(HERE / name):
            return f"{name} is not what was packed; unpack it again, or copy the pack here again."
    use_wheels()
    missing = [name for name in needs if absent(name)]
    if not missing:
        for name, at_home in needs.items():
            if (here := version(name)) != at_home:
                print(f"{name} is {here} here and {at_home} at home: last bits may differ")
        return ""
    # The build of the other machine, such as "+cpu", need not fit this one.
    versions = " ".join(f"{name}=={needs[name].partition('+')[0]}" for name in missing)
    return (
        f"{', '.join(missing)} cannot be found by this Python; install: {sys.executable} -m pip "
        f"install {versions}; without a network, pack again with {PACK_AGAIN}"
    )


def superseded(path: Path) -> bool:
    """Return whether this was a checkpoint that a later attempt of its run has removed."""
    attempt = path.parent.parent
    gone = path.parent.name == "checkpoints" and not path.exists()
    return gone and any(other.name > attempt.name for other in attempt.parent.iterdir())


def absent(name: str) -> bool:
    """Return whether Python finds no package of this name."""
    return find_spec(name.replace("-", "_")) is None


def use_wheels() -> None:
    """Unpack packed wheels of packages that are absent, for this process and those it starts."""
    paths = []
    for wheel in sorted(HERE.glob("wheels/*.whl")):
        if absent(wheel.name.partition("-")[0]):
            folder = HERE / "packages" / wheel.stem
            if not folder.is_dir():
                with zipfile.ZipFile(wheel) as archive:
                    archive.extractall(folder.with_suffix(".tmp"))
                folder.with_suffix(".tmp").rename(folder)
            paths.append(str(folder))
    sys.path += paths
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [*filter(None, [os.environ.get("PYTHONPATH")]), *paths]
    )
    invalidate_caches()


if __name__ == "__main__":
    if message := fault():
        sys.exit(f"error: {message}")
    sys.path.insert(0, str(HERE / "code"))
    try:
        from sweeper.export.runner import main
    except ImportError as error:
        if not (HERE / "packages").is_dir():
            raise
        sys.exit(f"error: packed wheels do not fit ({error}); pack again with {PACK_AGAIN}")
    sys.exit(main(HERE, sys.argv[1:]))
