"""The embedded pairs: gifts in the invented world, in MultiNLI's official files.

Who had what after a gift: the receiver (entailment), the giver (contradiction: the same words in
other roles), or somebody had what the premise does not speak of (neutral). Each name and each thing
stands equally often under each label, so that neither text tells anything without the other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sweeper.store.files import make_directory, publish
from tasks.synthetic.world_facts import (
    MATERIAL_OF_THING,
    THINGS,
    StableRandom,
    draw_scene,
    hand_out,
)

TRAIN, TEST = "multinli_1.0_train.jsonl", "multinli_1.0_dev_matched.jsonl"
TEST_EVERY = 8  # every 8th pair is of the development set
HASHED = 300  # pairs that tell one generator from another
LABELS = ("entailment", "contradiction", "neutral")


def generate(number: int) -> dict[str, Any]:
    """Return a pair as a row of an official file, always the same for its number."""
    rng = StableRandom(f"pair {number}")
    scene = draw_scene(rng, 2)
    hand_out(scene, rng, THINGS)
    giver, receiver = scene.cast
    (thing,) = scene.holds[giver]
    label = LABELS[number % len(LABELS)]
    holder, held = receiver, thing
    if label == "contradiction":
        holder = giver
    if label == "neutral":
        holder = rng.pick(scene.cast)
        held = rng.pick([other for other in THINGS if other != thing])
    material = MATERIAL_OF_THING[thing]
    return {
        "annotator_labels": [label],
        "genre": "sample",
        "gold_label": label,
        "pairID": f"{number}{label[0]}",
        "promptID": str(number),
        "sentence1": f"{giver.name} gave the {material} {thing} to {receiver.name}.",
        "sentence2": f"Now {holder.name} of {holder.town} had the {held}.",
    }


def generator_hash(pairs: int) -> str:
    """Return what tells this sample from one of another length or by another version."""
    return hashlib.sha256(f"{pairs}\n{_lines(range(HASHED))}".encode()).hexdigest()


def write_sample(folder: Path, pairs: int) -> Path:
    """Write the pairs into `folder`, unless they are there; returns `folder`."""
    if not (folder / TEST).exists():
        make_directory(folder)
        numbers = range(pairs)
        publish(folder / TRAIN, _lines(n for n in numbers if n % TEST_EVERY))
        publish(folder / TEST, _lines(n for n in numbers if n % TEST_EVERY == 0))
    return folder


def _lines(numbers: Iterable[int]) -> str:
    return "".join(json.dumps(generate(number)) + "\n" for number in numbers)
