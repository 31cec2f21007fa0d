"""The embedded pairs: who came to a gathering, in MultiNLI's official files.

The premise names who came, the hypothesis tells of people by family and name: of those who were
there (entailment), of other members of their families (contradiction), or of other families
(neutral). Each name stands equally often under each label, so that neither text tells anything
without the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tasks.synthetic.documents import by_family, came
from tasks.synthetic.families import StableRandom, World, examples_in_files, one_of_each

TRAIN, TEST = "multinli_1.0_train.jsonl", "multinli_1.0_dev_matched.jsonl"
LABELS = ("entailment", "contradiction", "neutral")


def generate(number: int, world: World) -> dict[str, Any]:
    """Return a pair as a row of an official file, always the same for its number."""
    rng = StableRandom(f"pair {number}")
    people, absent = world.gathering(rng)
    label = LABELS[number % len(LABELS)]
    truth = label if world.directions else rng.pick(LABELS)
    mentioned = people[: len(absent)]  # as many under each label
    if truth == "contradiction":
        mentioned = [world.relative(person, rng) for person in mentioned]
    elif truth == "neutral":
        mentioned = one_of_each(rng.some(absent, len(mentioned)), rng)
    return {
        "annotator_labels": [label],
        "genre": "sample",
        "gold_label": label,
        "pairID": f"{number}{label[0]}",
        "promptID": str(number),
        "sentence1": came(people),
        "sentence2": by_family(rng.mixed(mentioned)),
    }


def lines(numbers: Iterable[int], world: World) -> str:
    """The pairs of these numbers as a file has them."""
    return "".join(json.dumps(generate(number, world)) + "\n" for number in numbers)


SAMPLE = examples_in_files(TRAIN, TEST, lines, hashed=300)
