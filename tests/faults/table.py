"""Write the table of docs/faults.md: `python -m tests.faults.table LINES`."""

import argparse
import json
from pathlib import Path

from benchmarks.measure import ROOT, fill, table

HEAD = ("case", "seed", "faults", "runs", "lost", "twice", "steps", "seconds")
CELLS = ("case", "seed", "injected", "runs", "share", "second_finishers", "steps")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.faults.table", description=__doc__
    )
    parser.add_argument(
        "lines", type=Path, help="a file with the output of `python -m tests.faults`"
    )
    lines: Path = parser.parse_args().lines
    counts = [json.loads(line) for line in lines.read_text().splitlines()]
    numbers = [key for key, value in counts[0].items() if not isinstance(value, str)]
    total = {key: sum(count[key] for count in counts) for key in numbers}
    rows = []
    for count in [*counts, {**total, "case": "all", "seed": ""}]:
        steps = f"{count['steps']} / {count['needed']}" if count["needed"] else ""
        count |= {"share": f"{count['lost']} of {count['injected']}", "steps": steps}
        rows.append([*(str(count[key]) for key in CELLS), f"{count['seconds']:.0f}"])
    fill(ROOT / "docs" / "faults.md", "tests.faults", table(HEAD, rows))


if __name__ == "__main__":
    main()
