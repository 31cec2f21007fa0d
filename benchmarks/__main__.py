"""Runs every benchmark in a process of its own and writes docs/performance.md: `make bench`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

from benchmarks.measure import ROOT, arguments

# The cheap ones first. Rounds are so many that all should take less than half an hour on two
# quiet cores.
BENCHMARKS = (
    *("heads", "data", "status", "packing", "planning", "files"),
    *("records", "loop", "stacked", "overhead", "step", "makespan", "time_left"),
)


def main() -> int:
    """Run all, then write the document unless sizes are tiny; 1 if any of them failed."""
    options = arguments(__doc__)
    lines = ("--lines", str(options.lines.resolve()))
    if options.smoke:
        failed = failures(BENCHMARKS, *lines, "--smoke")
    else:
        failed = failures(BENCHMARKS, *lines) + failures(["document"], *lines)
    if failed:
        print(f"failed: {', '.join(failed)}; what they printed stands above.", file=sys.stderr)
    return 1 if failed else 0


def failures(names: Sequence[str], *options: str) -> list[str]:
    """Run the modules one after another, whatever becomes of each; return which failed."""
    commands = {name: [sys.executable, "-m", f"benchmarks.{name}", *options] for name in names}
    return [name for name, command in commands.items() if subprocess.call(command, cwd=ROOT)]


if __name__ == "__main__":
    sys.exit(main())
