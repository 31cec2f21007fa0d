"""The embedded documents: small stories of the invented world, in BERT's format of documents.

A line is a sentence and a blank line ends a document. In a story people meet who have things; they
give them away, or eat, drink, burn, sow and wear something. Each event is told twice in different
words, so that whoever relates two sentences can tell a masked word and what comes next. The samples
that a pre-trained model is fine-tuned on tell the same events in the same sentences.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator
from pathlib import Path

from sweeper.store.files import make_directory, publish
from tasks.synthetic.world_facts import (
    GOODS,
    MATERIAL_OF_THING,
    THINGS,
    VERB_OF_GOOD,
    Scene,
    StableRandom,
    draw_scene,
    hand_out,
)

FILE = "documents.txt"
HASHED = 100  # stories that tell one generator from another
CAST = (2, 3)  # people in a story
EVENTS = (3, 4, 5)


def generate(number: int) -> list[str]:
    """Return the sentences of a story, always the same for its number."""
    rng = StableRandom(f"story {number}")
    scene = draw_scene(rng, rng.pick(CAST))
    hand_out(scene, rng, THINGS)
    *others, last = (person.name for person in scene.cast)
    story = [f"{', '.join(others)} and {last} met at the {scene.place}."]
    for person in rng.mixed(scene.cast):
        (item,) = scene.holds[person]
        story.append(f"{person.name} of {person.town} had the {MATERIAL_OF_THING[item]} {item}.")
    for _ in range(rng.pick(EVENTS)):
        story += _gift(scene, rng) if rng.below(3) else _deed(scene, rng)
    return story


def stories(sentences: int) -> Iterator[list[str]]:
    """Yield stories of `sentences` sentences together; the last one is cut off there."""
    for number in itertools.count():
        story = generate(number)[:sentences]
        if not story:
            return
        sentences -= len(story)
        yield story


def generator_hash(sentences: int) -> str:
    """Return what tells these stories from others, of another number or version."""
    begin = "\n".join(sentence for number in range(HASHED) for sentence in generate(number))
    return hashlib.sha256(f"{sentences}\n{begin}".encode()).hexdigest()


def write_sample(folder: Path, sentences: int) -> Path:
    """Write the stories into `folder`, unless they are there; returns `folder`."""
    path = folder / FILE
    if not path.exists():
        make_directory(folder)
        publish(path, "".join("\n".join(story) + "\n\n" for story in stories(sentences)))
    return folder


def _gift(scene: Scene, rng: StableRandom) -> list[str]:
    """Let somebody who holds something give it away; returns how that is told."""
    giver = rng.pick([person for person in scene.cast if scene.holds[person]])
    receiver = rng.pick([person for person in scene.cast if person is not giver])
    item = rng.pick(scene.holds[giver])
    scene.give(giver, receiver, item)
    return [
        f"{giver.name} gave the {MATERIAL_OF_THING[item]} {item} to {receiver.name}.",
        f"Now {receiver.name} of {receiver.town} had the {item}.",
    ]


def _deed(scene: Scene, rng: StableRandom) -> list[str]:
    """Let somebody use up something; returns how that is told."""
    person, good = rng.pick(scene.cast), rng.pick(GOODS)
    return [
        f"{person.name} {VERB_OF_GOOD[good]} {good} there.",
        f"Then {person.name} of {person.town} spoke of {good}.",
    ]
