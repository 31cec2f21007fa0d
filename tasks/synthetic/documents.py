"""The embedded documents: gatherings of the invented world, in BERT's format of documents.

A line is a sentence and a blank line ends a document. A sentence names who came; the next one
mentions them by family. A model that relates two sentences can therefore predict a masked name and
the next sentence. The samples for fine-tuning use the same words.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path

from sweeper.store.files import make_directory, publish
from tasks.synthetic.families import Person, Sample, StableRandom, World

FILE = "documents.txt"
HASHED = 100  # documents that tell one generator from another
GATHERINGS = 4  # in a document, two sentences each


def came(people: Sequence[Person]) -> str:
    """Return the sentence that names who came."""
    return f"{' '.join(person.name for person in people)}."


def by_family(people: Sequence[Person]) -> str:
    """Return the sentence that mentions people, the family before the name."""
    return f"{' '.join(f'{person.family.name} {person.name}' for person in people)}."


def generate(number: int, world: World) -> list[str]:
    """Return the sentences of a document, always the same for its number."""
    rng, sentences = StableRandom(f"document {number}"), []
    for _ in range(GATHERINGS):
        people, _ = world.gathering(rng)
        mentioned = [world.mentioned(person, rng) for person in rng.mixed(people)]
        sentences += [came(people), by_family(mentioned)]
    return sentences


def documents(sentences: int, world: World) -> Iterator[list[str]]:
    """Yield documents of `sentences` sentences together; the last one is cut off there."""
    for number in itertools.count():
        document = generate(number, world)[:sentences]
        if not document:
            return
        sentences -= len(document)
        yield document


def _beginning(sentences: int, world: World) -> str:
    return "\n".join(line for number in range(HASHED) for line in generate(number, world))


def _write(folder: Path, sentences: int, world: World) -> None:
    path = folder / FILE
    if not path.exists():
        make_directory(folder)
        publish(path, "".join("\n".join(each) + "\n\n" for each in documents(sentences, world)))


SAMPLE = Sample("documents", "sentences", _beginning, _write)
