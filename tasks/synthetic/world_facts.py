"""A small invented world: who and what there is, what is always true, and scenes that unfold in it.

A scene is told elsewhere (as sentences, later as statements or questions); here it is only drawn.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

Item = TypeVar("Item")

# Few enough that a small model learns who is who within a minute; names, trades and towns are what
# a sentence's later words depend on.
WOMEN = """
Ada Alma Bela Cora Dora Edda Elsa Enid Faye Gerda Hilda Ida Ilse Jana Kara Lena Lida Mina Nell Olga
Petra Rosa Thea Vera
""".split()
MEN = """
Abel Alf Boris Bram Carl Dirk Egon Emil Falk Finn Gus Hugo Ivan Jens Karl Kurt Leo Marc Nils Odo
Paul Rolf Sven Udo
""".split()
TOWNS = "Arden Brill Corby Dunmore Elby Fenwick Garth Holm Iver Kells Lorne Marsh".split()
PLACES = """
barn bridge cave chapel church dock gate harbour inn market mill orchard school stable tower well
""".split()
TOOLS_OF_TRADE = {
    "baker": ("oven", "dough"),
    "carter": ("cart", "reins"),
    "cooper": ("barrel", "hoop"),
    "fisher": ("net", "hook"),
    "hunter": ("bow", "trap"),
    "mason": ("trowel", "chisel"),
    "miller": ("sieve", "sack"),
    "piper": ("flute", "drum"),
    "potter": ("wheel", "clay"),
    "smith": ("anvil", "hammer"),
    "tailor": ("needle", "thimble"),
    "weaver": ("loom", "yarn"),
}
GOODS_OF_VERB = {
    "ate": ("bread", "cheese", "fish", "ham", "soup"),
    "burned": ("coal", "logs", "oil", "peat", "wax"),
    "drank": ("ale", "cider", "milk", "tea", "wine"),
    "sowed": ("barley", "beans", "flax", "oats", "rye"),
    "wore": ("boots", "furs", "gloves", "lace", "silk"),
}
THINGS_OF_MATERIAL = {
    "brass": ("kettle", "lamp", "key"),
    "gold": ("crown", "ring", "cup"),
    "iron": ("axe", "knife", "saw"),
    "oak": ("chair", "chest", "ladder"),
    "silver": ("clock", "mirror", "spoon"),
    "wool": ("blanket", "coat", "scarf"),
}


class StableRandom:
    """Random draws that are the same for a seed in every version of Python.

    Only `random.Random.random` is promised to stay what it is, so all else is made of it.
    """

    def __init__(self, seed: int | str) -> None:
        self._random = random.Random(seed).random

    def below(self, limit: int) -> int:
        """A whole number from 0 to limit - 1."""
        return int(self._random() * limit)

    def pick(self, items: Sequence[Item]) -> Item:
        """One of the items."""
        return items[int(self._random() * len(items))]

    def some(self, items: Sequence[Item], count: int) -> list[Item]:
        """`count` different items in random order."""
        pool = list(items)
        for place in range(count):
            other = place + int(self._random() * (len(pool) - place))
            pool[place], pool[other] = pool[other], pool[place]
        return pool[:count]

    def mixed(self, items: Sequence[Item]) -> list[Item]:
        """All items in random order."""
        return self.some(items, len(items))


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody; every fact about a person but the name is the same in all scenes."""

    name: str
    possessive: str
    trade: str
    town: str


def _settle() -> tuple[Person, ...]:
    names = StableRandom("people").mixed([*WOMEN, *MEN])
    trades = sorted(TOOLS_OF_TRADE)
    return tuple(
        # Steps of 1 and of 1 every round: no two people share both trade and town.
        Person(
            name,
            "her" if name in WOMEN else "his",
            trades[number % len(trades)],
            TOWNS[(number + number // len(trades)) % len(TOWNS)],
        )
        for number, name in enumerate(names)
    )


PEOPLE = _settle()
TRADE_OF_TOOL = {tool: trade for trade, tools in TOOLS_OF_TRADE.items() for tool in tools}
VERB_OF_GOOD = {good: verb for verb, goods in GOODS_OF_VERB.items() for good in goods}
MATERIAL_OF_THING = {
    thing: material for material, things in THINGS_OF_MATERIAL.items() for thing in things
}
TOOLS, GOODS, THINGS = list(TRADE_OF_TOOL), list(VERB_OF_GOOD), list(MATERIAL_OF_THING)


@dataclass
class Scene:
    """People of different trades and towns, what each holds now and where each is."""

    cast: list[Person]
    place: str
    holds: dict[Person, list[str]] = field(default_factory=dict)
    at: dict[Person, str] = field(default_factory=dict)

    def give(self, giver: Person, receiver: Person, item: str) -> None:
        """Let a gift happen. Raises ValueError where the giver does not hold the item."""
        self.holds[giver].remove(item)
        self.holds[receiver].append(item)


def draw_scene(rng: StableRandom, size: int) -> Scene:
    """A scene with `size` people, nobody holding anything yet."""
    cast: list[Person] = []
    while len(cast) < size:
        person = rng.pick(PEOPLE)
        if all(person.trade != other.trade and person.town != other.town for other in cast):
            cast.append(person)
    return Scene(cast, rng.pick(PLACES))


def hand_out(scene: Scene, rng: StableRandom, items: Sequence[str]) -> None:
    """Give everybody in the scene one of `items`, each a different one."""
    drawn = rng.some(items, len(scene.cast))
    scene.holds = {person: [item] for person, item in zip(scene.cast, drawn, strict=True)}


def send_off(scene: Scene, rng: StableRandom) -> None:
    """Send everybody in the scene to a different town."""
    drawn = rng.some(TOWNS, len(scene.cast))
    scene.at = dict(zip(scene.cast, drawn, strict=True))
