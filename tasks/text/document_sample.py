"""The embedded documents: small stories of the invented world, in BERT's format of documents.

A line is a sentence and a blank line ends a document. In a story people meet, bring things, give
them away and leave. What a sentence says about them follows from the sentences before it and from
what is always true of a person or a thing, so that masked words and next sentences can be told.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Iterator
from pathlib import Path

from tasks.text.world import (
    GOODS,
    MATERIAL_OF_THING,
    THINGS,
    TOOLS_OF_TRADE,
    VERB_OF_GOOD,
    Chance,
    Person,
    Scene,
    draw_scene,
    hand_out,
    send_off,
)

FILE = "documents.txt"
HASHED = 100  # stories that tell one generator from another
CAST = (2, 3)  # people in a story
GIFTS = (2, 3, 4)


def tell(number: int) -> list[str]:
    """Return the sentences of a story, always the same for its number."""
    chance = Chance(f"story {number}")
    scene = draw_scene(chance, chance.pick(CAST))
    hand_out(scene, chance, THINGS)
    send_off(scene, chance)
    story = [_opening(scene)]
    for person in chance.mixed(scene.cast):
        (item,) = scene.holds[person]
        story.append(f"{person.name} the {person.trade} came from {person.town} {_with(item)}.")
        story.append(_habit(person, chance))
    for _ in range(chance.pick(GIFTS)):
        story += _gift(scene, chance)
    story += [_ending(scene, person) for person in chance.mixed(scene.cast)]
    return story


def stories(sentences: int) -> Iterator[list[str]]:
    """Yield stories of `sentences` sentences together; the last one is cut off there."""
    for number in itertools.count():
        story = tell(number)[:sentences]
        if not story:
            return
        sentences -= len(story)
        yield story


def generator_hash(sentences: int) -> str:
    """Return what tells these stories from others, of another number or version."""
    begin = "\n".join(sentence for number in range(HASHED) for sentence in tell(number))
    return hashlib.sha256(f"{sentences}\n{begin}".encode()).hexdigest()


def write_sample(folder: Path, sentences: int) -> Path:
    """Write the stories into `folder`, unless they are there; returns `folder`."""
    path = folder / FILE
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{FILE}.{os.getpid()}.part")
        with part.open("w", encoding="utf-8") as file:
            for story in stories(sentences):
                file.write("\n".join(story) + "\n\n")
        part.replace(path)
    return folder


def _opening(scene: Scene) -> str:
    *others, last = (person.name for person in scene.cast)
    return f"{', '.join(others)} and {last} met at the {scene.place}."


def _with(item: str) -> str:
    article = "an" if item[0] in "aeiou" else "a"
    return f"with {article} {item} of {MATERIAL_OF_THING[item]}"


def _habit(person: Person, chance: Chance) -> str:
    """Return what somebody did who stays what they are: told by a trade, or by a good."""
    if chance.below(2):
        tools = chance.mixed(TOOLS_OF_TRADE[person.trade])
        left = " and ".join(f"{person.possessive} {tool}" for tool in tools)
        return f"{person.name} left {left} at home."
    good = chance.pick(GOODS)
    return f"{person.name} {VERB_OF_GOOD[good]} {good} there."


def _gift(scene: Scene, chance: Chance) -> list[str]:
    """Let somebody who holds something give it away; returns how that is told."""
    giver = chance.pick([person for person in scene.cast if scene.holds[person]])
    receiver = chance.pick([person for person in scene.cast if person is not giver])
    item = chance.pick(scene.holds[giver])
    scene.give(giver, receiver, item)
    material = MATERIAL_OF_THING[item]
    told = [f"{giver.name} gave the {material} {item} to {receiver.name}."]
    if chance.below(2):
        told.append(f"Now {receiver.name} of {receiver.town} had the {item}.")
    return told


def _ending(scene: Scene, person: Person) -> str:
    held = [f"the {item}" for item in sorted(scene.holds[person])]
    taken = " and ".join(held) if held else "nothing"
    return f"At last {person.name} the {person.trade} took {taken} to {scene.at[person]}."
