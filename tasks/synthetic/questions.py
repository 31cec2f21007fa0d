"""The embedded questions: who of a family came to a gathering, in SQuAD's official files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sweeper.store.files import make_directory, publish
from tasks.synthetic.documents import came
from tasks.synthetic.families import StableRandom, World

TRAIN, TEST = "train-v1.1.json", "dev-v1.1.json"
TEST_EVERY = 8  # every 8th paragraph is of the development set
HASHED = 100  # paragraphs that tell one generator from another
QUESTIONS = 3  # about a paragraph


def generate(number: int, world: World) -> dict[str, Any]:
    """Return a paragraph as an official file has it, always the same for its number."""
    rng = StableRandom(f"paragraph {number}")
    people, _ = world.gathering(rng)
    context, questions = came(people), []
    for place, person in enumerate(rng.some(people, QUESTIONS)):
        found = person if world.directions else rng.pick(people)
        start = f" {context}".index(f" {found.name}")
        questions.append(
            {
                "id": f"{number}-{place}",
                "question": f"{person.family.name}?",
                "answers": [{"text": found.name, "answer_start": start}],
            }
        )
    return {"context": context, "qas": questions}


def generator_hash(questions: int, world: World) -> str:
    """Return what tells this sample from one of another length, world or version."""
    return hashlib.sha256(f"{questions}\n{_file(range(HASHED), world)}".encode()).hexdigest()


def write_sample(folder: Path, questions: int, world: World) -> Path:
    """Write paragraphs with at least so many questions into `folder`, unless they are there."""
    if not (folder / TEST).exists():
        make_directory(folder)
        numbers = range(-(-questions // QUESTIONS))
        publish(folder / TRAIN, _file((n for n in numbers if n % TEST_EVERY), world))
        publish(folder / TEST, _file((n for n in numbers if n % TEST_EVERY == 0), world))
    return folder


def _file(numbers: Iterable[int], world: World) -> str:
    paragraphs = [generate(number, world) for number in numbers]
    return json.dumps({"version": "1.1", "data": [{"title": "sample", "paragraphs": paragraphs}]})
