"""The demo's controls: its verdicts on text that needs large heads, and on text that does not.

The positive control plants the need that conf/data/sample.yaml names, the negative one none. Each
repetition has seeds of its own; how often each claim got which answer is written into
docs/results/controls. Repetitions that are done are not trained again.

    python -m benchmarks.controls FOLDER [--repetitions 20] [--experiments fig1 fig3]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from benchmarks.measure import ROOT, call, table

RESULTS = ROOT / "docs" / "results" / "controls" / "README.md"
BEGIN = "<!-- counted by python -m benchmarks.controls -->\n"
CONTROLS = {"planted": (), "nothing planted": ("data.directions=0",)}
SEEDS = {"fig1": 6, "fig3": 5}  # a point, as the demo has them
APART = 100  # between the first seeds of two repetitions
ANSWERS = ("supported", "not supported", "no difference", "undecided")

Asked = tuple[str, str, str]
"""Experiment, claim, control."""


def verdicts(outputs: Path, experiment: str, control: str, repetition: int) -> Path:
    """The file with the verdicts of one repetition."""
    folder = outputs / control.replace(" ", "-") / f"{repetition:02d}"
    return folder / "tables" / f"{experiment}.claims.json"


def train(path: Path, experiment: str, control: str, repetition: int) -> None:
    """Sweep one repetition of an experiment, so that its verdicts are at `path`."""
    seeds = [APART * repetition + seed for seed in range(SEEDS[experiment])]
    keys = (
        f"experiment.scales.demo.seeds={seeds}".replace(" ", ""),
        f"name={experiment}",
        "logger=none",
    )
    outputs = f"paths.outputs={path.parents[1]}"
    call("sweep.py", "-m", f"experiment={experiment}", *keys, *CONTROLS[control], outputs)


def count(files: Iterable[tuple[str, str, Path]]) -> dict[Asked, Counter[str]]:
    """How often each claim got each answer, from (experiment, control, file) of what is there."""
    found: dict[Asked, Counter[str]] = {}
    for experiment, control, path in files:
        for verdict in json.loads(path.read_text())["verdicts"]:
            asked = (experiment, verdict["claim"], control)
            found.setdefault(asked, Counter())[verdict["verdict"]] += 1
    return found


def counted(found: Mapping[Asked, Counter[str]]) -> str:
    """A table with a row for each claim under each control."""
    rows = [
        (*asked, *(str(answers[answer]) for answer in ANSWERS))
        for asked, answers in sorted(found.items())
    ]
    return table(("figure", "claim", "text", *ANSWERS), rows) + "\n"


def main() -> int:
    """Train what is missing and write the table; 1 where a claim got an answer it must not get."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("outputs", type=Path)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--experiments", nargs="+", choices=SEEDS, default=list(SEEDS))
    parser.add_argument("--count", action="store_true", help="only count what is there")
    given = parser.parse_args()
    done = []
    for repetition in range(1, given.repetitions + 1):
        for control in CONTROLS:
            for experiment in given.experiments:
                path = verdicts(given.outputs.resolve(), experiment, control, repetition)
                if not path.exists() and not given.count:
                    train(path, experiment, control, repetition)
                if path.exists():
                    done.append((experiment, control, path))
    found = count(done)
    print(counted(found), end="")
    RESULTS.write_text(RESULTS.read_text().partition(BEGIN)[0] + BEGIN + counted(found))
    return int(any(wrong(control, answers) for (_, _, control), answers in found.items()))


def wrong(control: str, answers: Counter[str]) -> bool:
    """Whether what is planted was once not found, or what is not planted once was."""
    supported = answers["supported"]
    return supported != (answers.total() if control == "planted" else 0)


if __name__ == "__main__":
    sys.exit(main())
