"""The embedded questions: what people of the invented world did, in SQuAD's official files.

A paragraph says of a few people what each ate, drank, wore and so on, in any order. A question
names one of them and one thing to do in another form than the paragraph, so that as many sentences
share a word with it as its person has.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sweeper.store.files import make_directory, publish
from tasks.synthetic.world_facts import GOODS_OF_VERB, StableRandom, draw_scene

TRAIN, TEST = "train-v1.1.json", "dev-v1.1.json"
TEST_EVERY = 8  # every 8th paragraph is of the development set
HASHED = 100  # paragraphs that tell one generator from another
ASKED = {"ate": "eat", "burned": "burn", "drank": "drink", "sowed": "sow", "wore": "wear"}
PEOPLE, DEEDS = 2, 3  # in a paragraph, and of each of its people
QUESTIONS = 3  # about a paragraph


def generate(number: int) -> dict[str, Any]:
    """Return a paragraph as an official file has it, always the same for its number."""
    rng = StableRandom(f"paragraph {number}")
    scene = draw_scene(rng, PEOPLE)
    verbs = rng.some(sorted(GOODS_OF_VERB), DEEDS)
    goods = [rng.some(GOODS_OF_VERB[verb], PEOPLE) for verb in verbs]
    deeds = rng.mixed(
        [
            (person, verb, goods[v][p])
            for p, person in enumerate(scene.cast)
            for v, verb in enumerate(verbs)
        ]
    )
    context, questions = "", []
    for person, verb, good in deeds:
        sentence = f"{person.name} {verb} {good} there."
        start = len(context) + sentence.index(good, len(person.name) + len(verb) + 2)
        context += f"{sentence} "
        answers = [{"text": good, "answer_start": start}]
        questions.append((f"What did {person.name} {ASKED[verb]}?", answers))
    asked = rng.some(questions, QUESTIONS)
    return {
        "context": context.strip(),
        "qas": [
            {"id": f"{number}-{place}", "question": question, "answers": answers}
            for place, (question, answers) in enumerate(asked)
        ],
    }


def generator_hash(questions: int) -> str:
    """Return what tells this sample from one of another length or by another version."""
    return hashlib.sha256(f"{questions}\n{_file(range(HASHED))}".encode()).hexdigest()


def write_sample(folder: Path, questions: int) -> Path:
    """Write paragraphs with at least so many questions into `folder`, unless they are there."""
    if not (folder / TEST).exists():
        make_directory(folder)
        numbers = range(-(-questions // QUESTIONS))
        publish(folder / TRAIN, _file(n for n in numbers if n % TEST_EVERY))
        publish(folder / TEST, _file(n for n in numbers if n % TEST_EVERY == 0))
    return folder


def _file(numbers: Iterable[int]) -> str:
    paragraphs = [generate(number) for number in numbers]
    return json.dumps({"version": "1.1", "data": [{"title": "sample", "paragraphs": paragraphs}]})
