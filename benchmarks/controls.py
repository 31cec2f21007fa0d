"""Count the demo's verdicts with and without a planted effect: `python -m benchmarks.controls`.

The positive control is the demo's generated text, in which the need for large heads is planted
(conf/data/sample.yaml). The negative control is a text without this effect. Each repetition has
other seeds. The verdicts are written to docs/results/controls/verdicts.csv. Repetitions with
verdicts in this file are not trained again.

    python -m benchmarks.controls FOLDER [--repetitions 20] [--experiments fig1 fig3]
"""

import argparse
import csv
import itertools
import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.measure import ROOT, call, fill, read_rows, table
from sweeper.results.verdict import Decision

DOCUMENT = ROOT / "docs" / "results" / "controls" / "README.md"
RECORDS = DOCUMENT.with_name("verdicts.csv")
COLUMNS = ("repetition", "figure", "claim", "measure", "text", "verdict")
CONTROLS = {"planted": (), "nothing planted": ("data.directions=0",)}
# The number of seeds per point, as in the demo.
SEEDS = {"fig1": 6, "fig2": 4, "fig3": 6}
APART = 100  # the distance between the first seeds of two repetitions

Row = dict[str, str]


def main() -> int:
    """Train missing repetitions and write the table. Return 1 if any verdict is wrong, otherwise 0.

    On the planted text, only "supported" is right. On the other text, only "supported" is wrong.
    """
    parser = argparse.ArgumentParser(
        description=__doc__.splitlines()[0] if __doc__ else ""
    )
    parser.add_argument("outputs", type=Path)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--experiments", nargs="+", choices=SEEDS, default=SEEDS)
    given = parser.parse_args()

    rows = read_rows(RECORDS) if RECORDS.exists() else []
    kept = {(row["repetition"], row["text"], row["figure"]) for row in rows}
    repetitions = map(str, range(1, given.repetitions + 1))
    for one in itertools.product(repetitions, CONTROLS, given.experiments):
        if one not in kept:
            rows += verdicts(given.outputs.resolve(), *one)
            with RECORDS.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)

    text = counted(rows)
    print(text)
    fill(DOCUMENT, "benchmarks.controls", text)
    return int(
        any(
            (row["verdict"] == "supported") != (row["text"] == "planted")
            for row in rows
        )
    )


def verdicts(
    outputs: Path, repetition: str, control: str, experiment: str
) -> Iterator[Row]:
    """Train one repetition of an experiment, and yield a row of verdicts.csv for each verdict.

    `control` is a key of CONTROLS.
    """
    folder = outputs / control.replace(" ", "-") / f"{repetition:0>2}"
    first = APART * int(repetition)
    seeds = ",".join(str(first + seed) for seed in range(SEEDS[experiment]))
    call(
        *("sweep.py", "-m", f"experiment={experiment}", f"paths.outputs={folder}"),
        *(f"experiment.scales.demo.seeds=[{seeds}]", f"name={experiment}"),
        *("logger=none", *CONTROLS[control]),
    )
    found = json.loads(
        (folder / "tables" / f"{experiment}.claims.json").read_text("utf-8")
    )
    for verdict in found["verdicts"]:
        asked = (experiment, verdict["claim"], verdict["measure"])
        cells = (repetition, *asked, control, verdict["verdict"])
        yield dict(zip(COLUMNS, cells, strict=True))


def counted(rows: Iterable[Row]) -> str:
    """Return a table that counts the verdicts of each figure, claim, measure and text."""
    found: dict[tuple[str, ...], Counter[str]] = {}
    for row in rows:
        asked = tuple(row[column] for column in COLUMNS[1:-1])
        found.setdefault(asked, Counter())[row["verdict"]] += 1
    lines = [
        (*asked, *(str(answers[decision]) for decision in Decision))
        for asked, answers in sorted(found.items())
    ]
    return table((*COLUMNS[1:-1], *Decision), lines)


if __name__ == "__main__":
    sys.exit(main())
