"""The embedded pairs: who came to a gathering, in MultiNLI's official files.

The premise names who came, the hypothesis tells of people by family and name: of those who were
there (entailment), of other members of their families (contradiction), or of other families
(neutral). Each name stands equally often under each label, so that neither text tells anything
without the other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sweeper.store.files import make_directory, publish
from tasks.synthetic.documents import by_family, came
from tasks.synthetic.families import StableRandom, World, one_of_each

TRAIN, TEST = "multinli_1.0_train.jsonl", "multinli_1.0_dev_matched.jsonl"
TEST_EVERY = 8  # every 8th pair is of the development set
HASHED = 300  # pairs that tell one generator from another
LABELS = ("entailment", "contradiction", "neutral")


def generate(number: int, world: World) -> dict[str, Any]:
    """Return a pair as a row of an official file, always the same for its number."""
    rng = StableRandom(f"pair {number}")
    people, absent = world.gathering(rng)
    label = LABELS[number % len(LABELS)]
    truth = label if world.directions else rng.pick(LABELS)
    told = people[: len(absent)]  # as many under each label
    if truth == "contradiction":
        told = [world.relative(person, rng) for person in told]
    elif truth == "neutral":
        told = one_of_each(rng.some(absent, len(told)), rng)
    return {
        "annotator_labels": [label],
        "genre": "sample",
        "gold_label": label,
        "pairID": f"{number}{label[0]}",
        "promptID": str(number),
        "sentence1": came(people),
        "sentence2": by_family(rng.mixed(told)),
    }


def generator_hash(pairs: int, world: World) -> str:
    """Return what tells this sample from one of another length, world or version."""
    return hashlib.sha256(f"{pairs}\n{_lines(range(HASHED), world)}".encode()).hexdigest()


def write_sample(folder: Path, pairs: int, world: World) -> Path:
    """Write the pairs into `folder`, unless they are there; returns `folder`."""
    if not (folder / TEST).exists():
        make_directory(folder)
        numbers = range(pairs)
        publish(folder / TRAIN, _lines((n for n in numbers if n % TEST_EVERY), world))
        publish(folder / TEST, _lines((n for n in numbers if n % TEST_EVERY == 0), world))
    return folder


def _lines(numbers: Iterable[int], world: World) -> str:
    return "".join(json.dumps(generate(number, world)) + "\n" for number in numbers)
