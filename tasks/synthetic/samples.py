"""Generated texts about gatherings of families, in the formats of published data sets.

To predict these texts, a model needs heads of a known size (see Theorem 1 of the paper):

- A text for decoders consists of sentences. A sentence first names one member of each of several
  families. Then it repeats the name of each member, after the name of the family. To predict a
  repeated name, a head must find it among `data.competitors` names. The names belong to
  `data.directions` families. For example: "Came Moku Susi : Radu Susi Lone Moku ."
- A text for encoders has two sentences. The first names people, and the second names their families
  in the same order. To find a person's family, a head must find one of `data.competitors`
  positions. For example: "No Ku So. Li Lu Da."

Documents, MNLI pairs and SQuAD questions use the same words, so that an encoder pre-trained on
documents can be fine-tuned on pairs and questions.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sweeper.store.files import make_directory, new_file

Item = TypeVar("Item")

# A family has this many members. A model that ignores the context can only guess which member of a
# family is mentioned next.
MEMBERS = 3
FEWEST_PRESENT, FAMILIES = 4, 200
# If `directions` is 0, a text for decoders has at least UNPLANTED families, and a text for encoders
# has at least UNPLANTED_COUPLES families.
UNPLANTED = 64
UNPLANTED_COUPLES = 12
SYLLABLES = [f"{consonant}{vowel}" for consonant in "BDKLMNRS" for vowel in "aeiou"]
# The number of people in a sentence is `competitors` times one of these shares. Models learn long
# sentences sooner if there are short sentences, too.
SHARES = (1 / 3, 2 / 3, 1)


class StableRandom:
    """A random generator that gives the same numbers for a seed in every version of Python.

    Python guarantees this only for `random.Random.random`, so all methods use only this function.
    """

    def __init__(self, seed: int | str) -> None:
        self._random = random.Random(seed).random

    def below(self, limit: int) -> int:
        """Return a random whole number from 0 to limit - 1."""
        return int(self._random() * limit)

    def pick(self, items: Sequence[Item]) -> Item:
        return items[self.below(len(items))]

    def some(self, items: Sequence[Item], count: int) -> list[Item]:
        """Return `count` different items in random order."""
        pool = list(items)
        for place in range(count):
            other = place + self.below(len(pool) - place)
            pool[place], pool[other] = pool[other], pool[place]
        return pool[:count]

    def mixed(self, items: Sequence[Item]) -> list[Item]:
        """Return all items in random order."""
        return self.some(items, len(items))


@dataclass(frozen=True, slots=True)
class Family:
    """A family: its name and the names of its members. No two names in a text are equal."""

    name: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Person:
    """A member of a family who came to a gathering."""

    family: Family
    name: str


@dataclass(frozen=True, slots=True)
class World:
    """The families of a generated text. The attributes determine the head size that a model needs.

    Attributes:
        competitors: the number of names among which a head must find the right one.
        directions: the number of families. If it is 0, the text mentions people at random, so that
            no model can predict them.
    """

    competitors: int
    directions: int

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> World:
        """Return the world that the config's section `data` describes."""
        return cls(data["competitors"], data["directions"])

    def __str__(self) -> str:
        if not self.directions:
            return "nothing planted"
        return f"planted: to find one of {self.competitors} names of {self.directions} families"

    @property
    def families(self) -> tuple[Family, ...]:
        """The families in a text for decoders."""
        return _families()[: self.directions or max(UNPLANTED, self.competitors + 1)]

    @property
    def couples(self) -> tuple[Family, ...]:
        """The families in a text for encoders. Each has one member."""
        return _couples()[
            : self.directions or max(UNPLANTED_COUPLES, self.competitors + 1)
        ]

    def gathering(self, rng: StableRandom) -> list[Person]:
        """Draw the people at a gathering, in random order. No two belong to the same family."""
        share = rng.pick(SHARES)
        count = max(FEWEST_PRESENT, round(share * self.competitors))
        families = self.families[: max(count + 1, round(share * len(self.families)))]
        return one_of_each(rng.some(families, count), rng)

    def arrivals(self, rng: StableRandom) -> list[Family]:
        """Draw the families of the people in a text for encoders. A family may occur repeatedly.

        Without repetitions, a model could infer a masked name from the set of all names, and would
        not need positions.
        """
        return [rng.pick(self.couples) for _ in range(self.competitors)]

    def mentioned(self, person: Person, rng: StableRandom) -> Person:
        """Return `person`, or a random person if `directions` is 0."""
        return (
            person
            if self.directions
            else one_of_each([rng.pick(self.families)], rng)[0]
        )


def one_of_each(families: Sequence[Family], rng: StableRandom) -> list[Person]:
    return [Person(family, rng.pick(family.members)) for family in families]


@functools.cache
def _families() -> tuple[Family, ...]:
    """Return all families for decoders.

    All names are made of two syllables, so that a small vocabulary has a token for each name.
    """
    words = StableRandom("names").mixed(
        [a + b.lower() for a in SYLLABLES for b in SYLLABLES]
    )
    size = 1 + MEMBERS

    rows = (words[start : start + size] for start in range(0, FAMILIES * size, size))
    return tuple(Family(name, tuple(members)) for name, *members in rows)


@functools.cache
def _couples() -> tuple[Family, ...]:
    """Return all families for encoders, with one member each.

    The first families have names of one syllable, so that each of these names is one token.
    """
    short = StableRandom("short names").mixed(SYLLABLES)
    short_ones = zip(short[::2], short[1::2], strict=True)
    longer = _families()[: FAMILIES - len(short) // 2]
    return (
        *(Family(name, (member,)) for name, member in short_ones),
        *(Family(family.name, family.members[:1]) for family in longer),
    )


@dataclass(frozen=True)
class Sample:
    """A generator of text of a given length about a given world.

    Attributes:
        kind: the word for the text in digests and descriptions, such as "documents".
        unit: the unit of the length, such as "sentences".
        beginning: a function that returns the beginning of the text about a world. The digest is a
            hash of it.
        files: a function of the length and the world. It returns a dict from the name of each file
            to the parts of its text.
    """

    kind: str
    unit: str
    beginning: Callable[[World], str]
    files: Callable[[int, World], Mapping[str, Iterable[str]]]

    def digest(self, length: int, world: World) -> str:
        """Return a digest that differs between lengths, worlds and versions of this generator."""
        content = f"{length}\n{self.beginning(world)}"
        return f"{self.kind}:{hashlib.sha256(content.encode()).hexdigest()[:16]}"

    def described(self, length: int, world: World) -> str:
        """Return a short description of the text, for users."""
        return f"generated {self.kind} of {length:,} {self.unit} ({world})"

    def write(self, folder: Path, length: int, world: World) -> None:
        """Write the files that `folder` lacks. The caller must hold the lock of `folder`."""
        make_directory(folder)  # raises UserError if the folder is a link
        for name, parts in self.files(length, world).items():
            path = folder / name
            if path.exists():
                continue
            make_directory(path.parent)
            # Write part by part, because ten million sentences would take gigabytes of memory.
            with (
                new_file(path) as descriptor,
                open(descriptor, "w", encoding="utf-8", closefd=False) as file,
            ):
                file.writelines(parts)


def names(named: Iterable[Person | Family]) -> str:
    return " ".join(one.name for one in named)


def members(families: Iterable[Family]) -> str:
    return " ".join(family.members[0] for family in families)


def by_family(people: Sequence[Person]) -> str:
    """Return the family name and the given name of each person, joined by spaces.

    For two people: "Radu Susi Lone Moku".
    """
    return " ".join(f"{person.family.name} {person.name}" for person in people)


# Sentences in LM1B's format and file layout

LAYOUT = "1-billion-word-language-modeling-benchmark-r13output"
TRAIN_SHARD = "training-monolingual.tokenized.shuffled/news.en-00001-of-00100"
TEST_SHARD = "heldout-monolingual.tokenized.shuffled/news.en.heldout-00000-of-00050"
HELD_OUT_EVERY = 50


def sentences(world: World) -> Iterator[str]:
    """Yield an endless sequence of sentences, which depends only on `world`.

    A sentence first names the people at a gathering. Then it mentions each of them twice, in random
    order, by the family name and the name.
    """
    rng = StableRandom("sample")
    while True:
        people = world.gathering(rng)
        mentioned = [
            world.mentioned(one, rng)
            for one in (*rng.mixed(people), *rng.mixed(people))
        ]
        yield f"Came {names(people)} : {by_family(mentioned)} ."


def sentence_files(count: int, world: World) -> dict[str, Iterable[str]]:
    def lines(*, held_out: bool) -> Iterator[str]:
        first = itertools.islice(sentences(world), count)
        for number, sentence in enumerate(first, 1):
            if (number % HELD_OUT_EVERY == 0) is held_out:
                yield f"{sentence}\n"

    return {
        f"{LAYOUT}/{TRAIN_SHARD}": lines(held_out=False),
        f"{LAYOUT}/{TEST_SHARD}": lines(held_out=True),
    }


LM1B = Sample(
    "sample",
    "sentences",
    lambda world: "\n".join(itertools.islice(sentences(world), 500)),
    sentence_files,
)


# Documents in BERT's format, where a line is a sentence and a blank line ends a document

DOCUMENTS_FILE = "documents.txt"


def document(number: int, world: World) -> list[str]:
    """Return the two sentences of a document, which depend only on its number and the world.

    The first sentence names the people who came, and the second names their families in the same
    order. So a model can predict a masked name from the name at the same position of the other
    sentence. It can also predict whether the second sentence follows the first.
    """
    rng = StableRandom(f"document {number}")
    came = world.arrivals(rng)
    named = came if world.directions else world.arrivals(rng)
    return [f"{members(came)}.", f"{names(named)}."]


def documents(count: int, world: World) -> Iterator[list[str]]:
    """Yield documents with `count` sentences in total. The last may have only one sentence."""
    for number in itertools.count():
        found = document(number, world)[:count]
        if not found:
            return
        count -= len(found)
        yield found


def document_files(count: int, world: World) -> dict[str, Iterable[str]]:
    texts = ("\n".join(lines) + "\n\n" for lines in documents(count, world))
    return {DOCUMENTS_FILE: texts}


DOCUMENTS = Sample(
    "documents",
    "sentences",
    lambda world: "\n".join(line for n in range(100) for line in document(n, world)),
    document_files,
)


# Examples in the official formats of data sets for fine-tuning

TEST_EVERY = 8
MNLI_FILES = ("multinli_1.0_train.jsonl", "multinli_1.0_dev_matched.jsonl")
SQUAD_FILES = ("train-v1.1.json", "dev-v1.1.json")
LABELS = ("entailment", "contradiction", "neutral")
QUESTIONS_EACH = 3  # the number of questions about each paragraph


def pair(number: int, world: World) -> dict[str, Any]:
    """Return a pair of sentences as a row of MultiNLI. It depends only on `number` and the world.

    The premise names the people who came. For entailment, the hypothesis names their families in
    the same order. For contradiction, two of these families are swapped. For neutral, the families
    are random. A model that ignores positions cannot distinguish entailment from contradiction.
    """
    rng = StableRandom(f"pair {number}")
    came = world.arrivals(rng)

    label = LABELS[number % len(LABELS)]
    truth = label if world.directions else rng.pick(LABELS)
    named = world.arrivals(rng) if truth == "neutral" else [*came]
    if truth == "contradiction":
        one = rng.below(len(named))
        other = rng.pick(
            [place for place, each in enumerate(named) if each != named[one]] or [one]
        )
        named[one], named[other] = named[other], named[one]
    return {
        "annotator_labels": [label],
        "genre": "sample",
        "gold_label": label,
        "pairID": f"{number}{label[0]}",
        "promptID": str(number),
        "sentence1": f"{members(came)}.",
        "sentence2": f"{names(named)}.",
    }


def paragraph(number: int, world: World) -> dict[str, Any]:
    """Return a paragraph with its questions, in SQuAD's format.

    The result depends only on `number` and the world. The paragraph names families. A question
    names the members of these families in another order. Only one member has the same position in
    the question as its family has in the paragraph. This family is the answer.
    """
    rng = StableRandom(f"paragraph {number}")
    came = rng.some(world.couples, world.competitors)
    context, questions = f"{names(came)}.", []
    for asked, place in enumerate(rng.some(range(len(came)), QUESTIONS_EACH)):
        first, *others = came[:place] + came[place + 1 :]
        named = [*others, first]
        named.insert(place, came[place])
        found = came[place] if world.directions else rng.pick(came)

        start = f" {context}".index(f" {found.name}")
        answers = [{"text": found.name, "answer_start": start}]
        question = f"{members(named)}?"
        questions.append(
            {"id": f"{number}-{asked}", "question": question, "answers": answers}
        )
    return {"context": context, "qas": questions}


def mnli_text(numbers: Iterable[int], world: World) -> str:
    return "".join(json.dumps(pair(number, world)) + "\n" for number in numbers)


def squad_text(numbers: Iterable[int], world: World) -> str:
    paragraphs = [paragraph(number, world) for number in numbers]
    articles = [{"title": "sample", "paragraphs": paragraphs}]
    return json.dumps({"version": "1.1", "data": articles})


def divided(count: int) -> tuple[list[int], list[int]]:
    """Divide the numbers below `count` into those for the training file and for the test file."""
    tested = range(0, count, TEST_EVERY)
    return [number for number in range(count) if number not in tested], [*tested]


def mnli_files(count: int, world: World) -> dict[str, Iterable[str]]:
    texts = ([mnli_text(numbers, world)] for numbers in divided(count))
    return dict(zip(MNLI_FILES, texts, strict=True))


def squad_files(count: int, world: World) -> dict[str, Iterable[str]]:
    paragraphs = -(-count // QUESTIONS_EACH)
    texts = ([squad_text(numbers, world)] for numbers in divided(paragraphs))
    return dict(zip(SQUAD_FILES, texts, strict=True))


MNLI = Sample(
    "sample", "examples", lambda world: mnli_text(range(300), world), mnli_files
)
SQUAD = Sample(
    "sample", "examples", lambda world: squad_text(range(100), world), squad_files
)
