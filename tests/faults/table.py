"""docs/faults.md from the lines of JSON: `python -m tests.faults.table LINES > docs/faults.md`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

HEAD = """# What a sweep survives

`make faults` breaks small sweeps on purpose, has them finish, and compares each with a sweep that
nobody disturbed: every row of metrics, every result, the digest of the final weights, and the
tables, byte for byte without the columns that tell times. This table is generated from the lines
it printed (`tests/faults/table.py`), and every number in it was measured.

*Lost* is the sum of what must not happen: runs left unfinished, results or tables that differ,
results overwritten, damaged files used, waits without end, and failures not told in the expected
words. *Twice* counts attempts that trained to the end although another had: allowed, and compared.
*Steps* are optimizer steps executed for those needed, as far as the metrics tell.

| case | seed | faults | runs | lost | twice | steps | seconds |
| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |
"""
TAIL = """
Zero of N bounds the true rate below 3 / N with 95 % confidence, no lower. Seconds are wall time on
a shared machine. Not covered: a power cut under a real disk (files are fsynced in the order that
survives one), a network file system with two clients, GPUs.
"""


def main() -> None:
    """Print the page."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults.table", description=__doc__)
    parser.add_argument("lines", type=Path, help="what `python -m tests.faults` printed, in a file")
    lines: Path = parser.parse_args().lines
    counts = [json.loads(line) for line in lines.read_text().splitlines()]
    print(HEAD, end="")
    for count in [*counts, _all(counts)]:
        steps = f"{count['steps']} / {count['needed']}" if count["needed"] else ""
        lost = f"{count['lost']} of {count['injected']}"
        cells = (count["case"], count["seed"], count["injected"], count["runs"], lost)
        more = (count["second_finishers"], steps, f"{count['seconds']:.0f}")
        print("| " + " | ".join(map(str, (*cells, *more))) + " |")
    print(TAIL, end="")


def _all(counts: list[dict[str, Any]]) -> dict[str, Any]:
    """The sum over the cases, as a case."""
    numbers = [key for key, value in counts[0].items() if not isinstance(value, str)]
    sums = {key: sum(count[key] for count in counts) for key in numbers}
    return {**sums, "case": "all", "seed": ""}


if __name__ == "__main__":
    main()
