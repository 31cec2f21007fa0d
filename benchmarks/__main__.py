"""Run benchmarks and write their tables to docs/performance.md: `make bench`.

    python -m benchmarks [--smoke] [NAME ...]

Without a NAME, all benchmarks run, each in a process of its own. With --smoke, they run at tiny
sizes and write nothing.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence

from benchmarks.measure import ROOT, fill

DOCUMENT = ROOT / "docs" / "performance.md"
BENCHMARKS = ("sweeps", "step")


def main() -> int:
    """Run the benchmarks. Return 1 if any of them failed, otherwise 0."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHMARKS))
    parser.add_argument(
        "--smoke", action="store_true", help="use tiny sizes and write nothing"
    )
    options = parser.parse_args()
    unknown = sorted(set(options.names) - set(BENCHMARKS))
    if unknown:
        parser.error(f"NAME={unknown[0]}: expected one of {', '.join(BENCHMARKS)}")
    failed = run(options.names or BENCHMARKS, smoke=options.smoke)
    if failed:
        print(f"failed: {', '.join(failed)}; see the messages above.", file=sys.stderr)
    return 1 if failed else 0


def run(names: Sequence[str], *, smoke: bool) -> list[str]:
    """Run these benchmarks one after another and write their tables. Return the failed ones."""
    failed = []
    for name in names:
        command = [sys.executable, "-m", f"benchmarks.{name}", *["--smoke"] * smoke]
        done = subprocess.run(
            command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False
        )
        print(done.stdout, flush=True)
        if done.returncode:
            failed.append(name)
        elif not smoke:
            fill(DOCUMENT, f"benchmarks.{name}", done.stdout)
    return failed


if __name__ == "__main__":
    sys.exit(main())
