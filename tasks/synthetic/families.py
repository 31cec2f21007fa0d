"""The world of the generated text: families, and gatherings with one member of each.

To find the one of a family, a head has to tell `competitors` names apart that differ in
`directions` families: the mechanism of the paper's Theorem 1, with a need that is known.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

Item = TypeVar("Item")

MEMBERS = 3  # of a family: what a reader who does not look must guess among
FEWEST_PRESENT, FAMILIES = 4, 200
CONSONANTS, VOWELS = "BDKLMNRS", "aeiou"
SHARES = (1 / 3, 2 / 3, 1)  # of the competitors, in a sentence: what fewer teach helps with more


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
        return items[self.below(len(items))]

    def some(self, items: Sequence[Item], count: int) -> list[Item]:
        """`count` different items in random order."""
        pool = list(items)
        for place in range(count):
            other = place + self.below(len(pool) - place)
            pool[place], pool[other] = pool[other], pool[place]
        return pool[:count]

    def mixed(self, items: Sequence[Item]) -> list[Item]:
        """All items in random order."""
        return self.some(items, len(items))


@dataclass(frozen=True, slots=True)
class Family:
    """A name and its members' names; no word is the name of two things."""

    name: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody who came."""

    family: Family
    name: str


@dataclass(frozen=True, slots=True)
class World:
    """The planted structure: the number of competing names, and of their families.

    directions: 0 plants nothing; then the people mentioned are independent of those who came.
    """

    competitors: int
    directions: int

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> World:
        """Return the world that the `data` section of a config names."""
        return cls(data["competitors"], data["directions"])

    def __str__(self) -> str:
        if not self.directions:
            return "nothing planted"
        return f"planted: to find one of {self.competitors} names of {self.directions} families"

    @property
    def families(self) -> tuple[Family, ...]:
        return _families()[: self.directions or FAMILIES]

    def gathering(self, rng: StableRandom) -> tuple[list[Person], list[Family]]:
        """Return people of different families in random order, and the families that are absent."""
        share = rng.pick(SHARES)
        count = max(FEWEST_PRESENT, round(share * self.competitors))
        families = self.families[: max(count + 1, round(share * len(self.families)))]
        came = rng.some(families, count)
        return one_of_each(came, rng), [family for family in families if family not in came]

    def mentioned(self, person: Person, rng: StableRandom) -> Person:
        """Return the person to mention: the one who came, or anybody if nothing is planted."""
        return person if self.directions else one_of_each([rng.pick(self.families)], rng)[0]

    def relative(self, person: Person, rng: StableRandom) -> Person:
        others = [name for name in person.family.members if name != person.name]
        return Person(person.family, rng.pick(others))


def one_of_each(families: Sequence[Family], rng: StableRandom) -> list[Person]:
    return [Person(family, rng.pick(family.members)) for family in families]


@functools.cache
def _families() -> tuple[Family, ...]:
    """All families: two syllables a name, so that few pieces make all words."""
    syllables = [f"{consonant}{vowel}" for consonant in CONSONANTS for vowel in VOWELS]
    words = StableRandom("names").mixed([a + b.lower() for a in syllables for b in syllables])
    size = 1 + MEMBERS
    rows = (words[start : start + size] for start in range(0, FAMILIES * size, size))
    return tuple(Family(name, tuple(members)) for name, *members in rows)
