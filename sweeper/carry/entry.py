"""Train the runs of this folder: `python run.py`; again, it continues where it stopped.

    python run.py hydra.launcher.jobs_per_device=2 hydra.sweeper.on_oom=halve

What it came to is left beside this file, in one tar to bring home. Ctrl-C (or SIGTERM) saves first.
"""

# It stands alone: what it would import may be what was damaged on the way here.
from __future__ import annotations

import hashlib
import json
import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
OLDEST = (3, 11)


def fault() -> str:
    """Return what keeps this folder from being used, one sentence; empty if nothing does."""
    if sys.version_info < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        return f"this is Python {sys.version.split()[0]}: run it with {oldest} or newer."
    try:
        manifest = json.loads((HERE / "manifest.json").read_text("utf-8"))
        files, needs = dict(manifest["files"]), dict(manifest["needs"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"manifest.json is not what was packed ({error}); unpack it again."
    for name, expected in files.items():
        try:
            found = hashlib.sha256((HERE / name).read_bytes()).hexdigest()
        except OSError:
            found = ""
        if found != expected:
            return f"{name} is not what was packed; unpack it again, or carry it here again."
    missing = [name for name in needs if find_spec(name.replace("-", "_")) is None]
    return _install(missing, needs) if missing else ""


def _install(missing: list[str], needs: dict[str, str]) -> str:
    """Return a sentence on libraries that are not here, and how they would be."""
    pip = f"{sys.executable} -m pip install"
    if any(HERE.glob("wheels/*.whl")):
        remedy = f"install what came along: {pip} --no-index --no-deps wheels/*.whl"
    else:
        # Which build of it is right here, "+cpu" of another machine does not say.
        versions = " ".join(f"{name}=={needs[name].partition('+')[0]}" for name in missing)
        remedy = f"install: {pip} {versions}; without a network, pack again with --wheels DIR"
    return f"{', '.join(missing)} cannot be found by this Python; {remedy}"


if __name__ == "__main__":
    if what := fault():
        sys.exit(f"error: {what}")
    sys.path.insert(0, str(HERE / "code"))
    from sweeper.carry.runner import main

    sys.exit(main(HERE, sys.argv[1:]))
