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
    if missing:
        return f"{', '.join(missing)} cannot be found here; README.md says what is needed."
    return ""


if __name__ == "__main__":
    if what := fault():
        sys.exit(f"error: {what}")
    sys.path.insert(0, str(HERE / "code"))
    from sweeper.carry.runner import main

    sys.exit(main(HERE, sys.argv[1:]))
