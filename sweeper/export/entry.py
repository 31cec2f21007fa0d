"""Train the runs of this folder: `python run.py`; the same command continues after a stop.

    python run.py hydra.launcher.jobs_per_device=2 hydra.sweeper.on_oom=halve

The results are written to results.zip next to this file. Ctrl-C and SIGTERM save first.
"""

# It imports nothing of the pack before it has verified the pack.
from __future__ import annotations

import hashlib
import json
import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
OLDEST = (3, 11)


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
        if found != expected:
            return f"{name} is not what was packed; unpack it again, or copy the pack here again."
    missing = [name for name in needs if find_spec(name.replace("-", "_")) is None]
    if not missing:
        return ""
    pip = f"{sys.executable} -m pip install"
    if any(HERE.glob("wheels/*.whl")):
        remedy = f"install the packed wheels: {pip} --no-index --no-deps wheels/*.whl"
    else:
        # The build of the other machine, such as "+cpu", need not fit this one.
        versions = " ".join(f"{name}=={needs[name].partition('+')[0]}" for name in missing)
        remedy = f"install: {pip} {versions}; without a network, pack again with --wheels DIR"
    return f"{', '.join(missing)} cannot be found by this Python; {remedy}"


if __name__ == "__main__":
    if message := fault():
        sys.exit(f"error: {message}")
    sys.path.insert(0, str(HERE / "code"))
    from sweeper.export.runner import main

    sys.exit(main(HERE, sys.argv[1:]))
