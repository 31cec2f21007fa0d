"""Count the demo's verdicts with a planted effect and without: `python -m benchmarks.controls`.

The positive control is the text with the need for large heads that conf/data/sample.yaml plants,
the negative control a text without. Each repetition has seeds of its own. A repetition that is done
is not trained again.

    python -m benchmarks.controls FOLDER [--repetitions 20] [--experiments fig1 fig3]
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from benchmarks.measure import ROOT, call, fill, table
from sweeper.results.verdict import Decision

DOCUMENT = ROOT / "docs" / "results" / "controls" / "README.md"
CONTROLS = {"planted": (), "nothing planted": ("data.directions=0",)}
SEEDS = {"fig1": 6, "fig3": 5}  # a point, as the demo has them
APART = 100  # between the first seeds of two repetitions


def main() -> int:
    """Train missing repetitions and write the table; return 1 if any answer is wrong.

    An answer is wrong if it misses a planted effect, or finds an effect where none is planted.
    """
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("outputs", type=Path)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--experiments", nargs="+", choices=SEEDS, default=list(SEEDS))
    given = parser.parse_args()
    found: dict[tuple[str, str, str], Counter[str]] = {}  # by experiment, claim, control
    for repetition in range(1, given.repetitions + 1):
        for control in CONTROLS:
            folder = given.outputs.resolve() / control.replace(" ", "-") / f"{repetition:02d}"
            for experiment in given.experiments:
                path = folder / "tables" / f"{experiment}.claims.json"
                if not path.exists():
                    first = APART * repetition
                    seeds = ",".join(str(first + seed) for seed in range(SEEDS[experiment]))
                    call(
                        *("sweep.py", "-m", f"experiment={experiment}", f"paths.outputs={folder}"),
                        *(f"experiment.scales.demo.seeds=[{seeds}]", f"name={experiment}"),
                        *("logger=none", *CONTROLS[control]),
                    )
                for verdict in json.loads(path.read_text())["verdicts"]:
                    asked = (experiment, verdict["claim"], control)
                    found.setdefault(asked, Counter())[verdict["verdict"]] += 1
    text = counted(found)
    print(text)
    fill(DOCUMENT, "benchmarks.controls", text)
    return int(
        any(
            answers["supported"] != (answers.total() if control == "planted" else 0)
            for (*_, control), answers in found.items()
        )
    )


def counted(found: Mapping[tuple[str, str, str], Counter[str]]) -> str:
    """Return a table with the number of each verdict."""
    rows = [
        (*asked, *(str(verdicts[decision]) for decision in Decision))
        for asked, verdicts in sorted(found.items())
    ]
    return table(("figure", "claim", "text", *Decision), rows)


if __name__ == "__main__":
    sys.exit(main())
