"""What every generated text has: a digest that tells it from others, and files it is written as."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from sweeper.store.files import make_directory, publish
from tasks.synthetic.families import World

TEST_EVERY = 8  # every 8th example is of the set that is evaluated on


@dataclass(frozen=True)
class Sample:
    """Generated text in any length, of any world.

    Attributes:
        kind, unit: what it is, and what its length counts, in words.
        beginning: of (length, world), text that another generator would begin otherwise.
        write: of (folder, length, world), writes it there, unless it is there; the caller keeps
            other processes out.
    """

    kind: str
    unit: str
    beginning: Callable[[int, World], str]
    write: Callable[[Path, int, World], None]

    def digest(self, length: int, world: World) -> str:
        """What tells it from text of another length, world or version of the generator."""
        content = f"{length}\n{self.beginning(length, world)}"
        return f"{self.kind}:{hashlib.sha256(content.encode()).hexdigest()[:16]}"

    def described(self, length: int, world: World) -> str:
        """It in a few words, for a person."""
        return f"generated {self.kind} of {length:,} {self.unit} ({world})"


def examples_in_files(
    train: str,
    test: str,
    text: Callable[[Iterable[int], World], str],
    *,
    hashed: int,
    together: int = 1,
) -> Sample:
    """A sample of numbered examples in two official files.

    Args:
        train, test: their names.
        text: what a file holds of these numbers.
        hashed: numbers that tell one generator from another.
        together: examples of a number.
    """

    def write(folder: Path, length: int, world: World) -> None:
        if not (folder / test).exists():
            make_directory(folder)
            numbers = range(-(-length // together))
            publish(folder / train, text((n for n in numbers if n % TEST_EVERY), world))
            publish(folder / test, text((n for n in numbers if n % TEST_EVERY == 0), world))

    return Sample("sample", "examples", lambda _, world: text(range(hashed), world), write)
