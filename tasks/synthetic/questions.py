"""The embedded questions: who of a family came to a gathering, in SQuAD's official files."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tasks.synthetic.documents import came
from tasks.synthetic.families import StableRandom, World, examples_in_files

TRAIN, TEST = "train-v1.1.json", "dev-v1.1.json"
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


def file_of(numbers: Iterable[int], world: World) -> str:
    """The paragraphs of these numbers as a whole file."""
    paragraphs = [generate(number, world) for number in numbers]
    return json.dumps({"version": "1.1", "data": [{"title": "sample", "paragraphs": paragraphs}]})


SAMPLE = examples_in_files(TRAIN, TEST, file_of, hashed=100, together=QUESTIONS)
