"""The command line of what works on one run: `python -m tasks.train RUN`, `tasks.prepare RUN`."""

from __future__ import annotations

import argparse
import os


def directory(module: str, description: str | None) -> str:
    """Return the run directory that was typed; `description` is for --help."""
    os.umask(0o077)  # as SECURITY.md says: for the owner alone
    parser = argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", metavar="RUN", help="the directory of a run, outputs/runs/<id>")
    run: str = parser.parse_args().run
    return run
