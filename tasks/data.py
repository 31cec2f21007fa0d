"""The contract of a task's data: which examples there are, from where, in what order."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from sweeper.store.errors import UserError
from sweeper.store.files import canonical, make_directory
from tasks import ranks
from tasks.batch import Batch
from tasks.config.sections import RunConfig
from tasks.seeds import Shuffled
from tasks.text.source import SPLITS, Source

DRAWN = "drawn"  # what stands for a text where there is none


class Data(ABC):
    """Examples in batches; as written here, drawn at random and not read.

    Whatever looks random is a function of the run's seed and a counter: a run that was killed and
    continued ends with the same bits.
    """

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.section: Any = config.task  # of the class that the task says

    def source(self) -> tuple[str, str]:
        """Return the digest of what the text is, and one line for people; UserError if missing."""
        return DRAWN, "none, examples are drawn at random"

    def folder_name(self) -> str:
        """Return the name of the folder of the prepared data: equal names, equal data."""
        return DRAWN

    def complete(self, folder: Path) -> bool:
        """Return whether everything is prepared in that folder; drawn examples have none."""
        return True

    def prepare(self, folder: Path) -> None:  # noqa: B027  (nothing to prepare is an answer)
        """Make what is missing in that folder. The caller keeps other processes out meanwhile."""

    def open(self, folder: Path) -> dict[str, Any]:
        """Open the prepared data and return what a result says about it; UserError if unusable."""
        return {}

    @abstractmethod
    def batch(self, step: int) -> Batch:
        """Return the training batch of a step (from 1): a function of (seed, step) alone."""

    @abstractmethod
    def batches(self, split: str) -> Iterator[Batch]:
        """Yield a whole split ("validation" or "test"), each example exactly once, in order."""

    def share(self, step: int) -> Batch:
        """Return this rank's rows of the training batch of a step."""
        batch = self.batch(step)
        first, last = ranks.share(len(next(iter(batch.values()))))
        return {name: tensor[first:last] for name, tensor in batch.items()}

    def shares(self, split: str) -> Iterator[Batch]:
        """Yield this rank's batches of a split: of two ranks, every second."""
        return islice(self.batches(split), ranks.rank(), None, ranks.world())

    @abstractmethod
    def tokens_seen(self, steps: int) -> int:
        """Return how many positions the first `steps` steps see at most."""


class PreparedData(Data):
    """Data made of text, once for all runs with the same text and the same keys in `shaping`."""

    kind: ClassVar[str]  # the beginning of the folder's name
    format: ClassVar[int]  # the version of its content
    last: ClassVar[str]  # the file that appears last in the folder of each split
    shaping: ClassVar[tuple[str, ...]]
    published: ClassVar[Source]  # where the text comes from

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self.text = config.data.model_dump()

    def source(self) -> tuple[str, str]:
        return self.published.digest(self.text), self.published.describe(self.text)

    @abstractmethod
    def make(self, folder: Path) -> None:
        """Make whatever the folder lacks; UserError where the text is unusable."""

    def folder_name(self) -> str:
        shape = {key: getattr(self.section, key) for key in self.shaping}
        digest = self.text["digest"] or self.source()[0]
        content = self.spelled({"format": self.format, "digest": digest, **shape})
        return f"{self.kind}-{hashlib.sha256(content.encode()).hexdigest()[:16]}"

    @staticmethod
    def spelled(content: Mapping[str, Any]) -> str:
        """Return the text whose hash names the folder."""
        return canonical(content)

    def complete(self, folder: Path) -> bool:
        return all((folder / split / self.last).exists() for split in SPLITS)

    def prepare(self, folder: Path) -> None:
        if self.complete(folder):
            return
        planned, found = self.text["digest"], self.source()[0]
        if planned not in (None, found):
            raise UserError(
                f"data.digest={planned}: expected the text that was planned with, found {found}; "
                "plan again, or bring the old text back."
            )
        make_directory(folder)
        for leftover in folder.rglob(".*.tmp"):  # of a process that was killed
            leftover.unlink()
        self.make(folder)

    @abstractmethod
    def batch(self, step: int, *, shared: bool = False) -> Batch:
        """Return a training batch; if `shared`, this rank's rows of it (`ranks.share`)."""

    @abstractmethod
    def batches(self, split: str, place: int = 0, world: int = 1) -> Iterator[Batch]:
        """Yield every `world`-th batch of a split, from the one at `place`."""

    def share(self, step: int) -> Batch:
        return self.batch(step, shared=True)

    def shares(self, split: str) -> Iterator[Batch]:
        return self.batches(split, ranks.rank(), ranks.world())

    def tokens_seen(self, steps: int) -> int:
        tokens: int = self.section.batch_tokens
        return steps * tokens


class PreparedRows(PreparedData):
    """Prepared data that are rows of at most `sequence_length` positions, trained on epoch after
    epoch, each in an order of its own.
    """

    Rows: ClassVar[Any]
    """Opens the rows of a split's folder, which have a length and facts `about` them."""

    @abstractmethod
    def take(self, split: str, numbers: np.ndarray) -> Batch:
        """Return rows of a split by their numbers."""

    def open(self, folder: Path) -> dict[str, Any]:
        self.splits = {split: self.Rows(folder / split) for split in SPLITS}
        self._rows = self.section.batch_tokens // self.section.sequence_length
        self._order = Shuffled(len(self.splits["train"]), self.config.seed)
        return {f"{split}_rows": len(rows) for split, rows in self.splits.items()}

    def batch(self, step: int, *, shared: bool = False) -> Batch:
        first, last = ranks.share(self._rows) if shared else (0, self._rows)
        start = (step - 1) * self._rows
        return self.take("train", self._order.stretch(start + first, last - first))

    def batches(self, split: str, place: int = 0, world: int = 1) -> Iterator[Batch]:
        numbers = np.arange(len(self.splits[split]))
        for first in range(place * self._rows, len(numbers), world * self._rows):
            yield self.take(split, numbers[first : first + self._rows])
