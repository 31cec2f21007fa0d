"""The command line of what works on one run: `python -m tasks.train RUN`, `tasks.prepare RUN`."""

from __future__ import annotations

import argparse
import os


def directory(module: str, told: str | None) -> str:
    """Return the run directory that was typed; `told` is what --help says of the module."""
    os.umask(0o077)  # as SECURITY.md says: for the owner alone
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=told,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", metavar="RUN", help="the directory of a run, outputs/runs/<id>")
    run: str = parser.parse_args().run
    return run
