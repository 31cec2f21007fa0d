"""The base classes of a task's data, which are LightningDataModules.

A batch depends only on the run's seed and the number of the step. So a run that is killed and
continued gets the same batches as an undisturbed run.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytorch_lightning as pl

from sweeper.store import registry
from sweeper.store.changes import State, state_of_imports
from sweeper.store.code import differing, loaded_code
from sweeper.store.errors import UserError
from sweeper.store.files import canonical, child, make_directory
from sweeper.store.identity import DRAWN
from sweeper.store.liveness import held
from tasks import ranks
from tasks.batch import Batch
from tasks.config.sections import RunConfig
from tasks.digests import DIGESTS, check_digests, prepared_by, write_digests
from tasks.seeds import Shuffled
from tasks.text.source import SPLITS, Source


class TaskData(pl.LightningDataModule, ABC):
    """The base class of a task's data.

    Tasks that draw their examples at random use a direct subclass. Tasks on text use a subclass of
    PreparedData.
    """

    separable: ClassVar[bool] = True
    """Whether each rank trains on its share of a batch's rows. If False, it trains on all rows."""

    def __init__(self, config: RunConfig, outputs: Path | None = None) -> None:
        super().__init__()
        self.config = config
        self.section: Any = config.task  # an instance of the task's class Section
        self.outputs: Any = outputs  # the outputs folder; None while a run is planned
        # `setup` sets this dict, and the job writes it to result.json, under the key "data".
        self.facts: dict[str, Any] = {}

    # Methods that return examples

    @abstractmethod
    def batch(self, step: int) -> Batch:
        """Return the training batch of a step, counted from 1.

        The batch depends only on the run's seed and the step.
        """

    @abstractmethod
    def batches(self, split: str) -> Iterator[Batch]:
        """Yield the batches of a split, "validation" or "test", with each example exactly once."""

    @abstractmethod
    def tokens_seen(self, steps: int) -> int:
        """Return the number of positions in the first `steps` batches, or an upper bound."""

    # Methods about the source of the examples

    def source(self) -> tuple[str, str]:
        """Return the digest of the text and a one-line description of it.

        Raises:
            UserError: the text is missing.
        """
        return DRAWN, "none, because examples are drawn at random"

    def folder_name(self) -> str:
        """Return the folder name of the prepared data. Runs with equal data share the folder."""
        return DRAWN

    def check(self, *, again: bool = False) -> None:
        """Raise UserError if the files of prepared data have changed since their preparation.

        Data that are drawn at random have no files, so this method does nothing for them.

        Args:
            again: whether to read every file again. By default, skip files that this machine has
                checked and whose fingerprint is unchanged.
        """

    def changed_code(self) -> list[str]:
        """Return the paths of source files that have changed since they prepared the data."""
        return []

    # Hooks that Lightning calls

    def train_dataloader(self) -> TrainingBatches:
        return TrainingBatches(self)

    def val_dataloader(self) -> SplitBatches:
        return SplitBatches(self, "validation")

    def test_dataloader(self) -> SplitBatches:
        return SplitBatches(self, "test")


class TrainingBatches:
    """An iterable over this rank's rows of every training batch.

    pl.Trainer saves the `state_dict` in its checkpoints, so that a resumed run continues with the
    next batch.
    """

    def __init__(self, data: TaskData) -> None:
        self._data = data
        self._first = 1  # the step at which the next iteration begins
        self._done = 0

    def __len__(self) -> int:
        return self._data.config.trainer.steps

    def __iter__(self) -> Iterator[Batch]:
        first, self._first = self._first, 1
        for step in range(first, len(self) + 1):
            self._done = step
            batch = self._data.batch(step)
            yield ranks.share(batch) if self._data.separable else batch

    def state_dict(self) -> dict[str, int]:
        return {"done": self._done}

    def load_state_dict(self, state_dict: Mapping[str, int]) -> None:
        self._done = state_dict["done"]
        self._first = self._done + 1


class SplitBatches:
    """An iterable over this rank's batches of a split. Each of N ranks takes every N-th batch."""

    def __init__(self, data: TaskData, split: str) -> None:
        self._data, self._split = data, split

    def __iter__(self) -> Iterator[Batch]:
        return islice(
            self._data.batches(self._split), ranks.rank(), None, ranks.world()
        )


class PreparedData(TaskData):
    """The base class of data that are prepared from text and stored on disk.

    Runs share prepared data if they use the same text and have equal values for all keys in
    `shaping`.
    """

    kind: ClassVar[str]
    """The prefix of the folder name, for example "text" in "text-0123456789abcdef"."""
    format: ClassVar[int]
    """The version of the format of the prepared files."""
    shaping: ClassVar[tuple[str, ...]]
    """The keys of the section `task` on which the prepared data depend."""
    published: ClassVar[Source]
    """The reader of the text that the section `data` names."""

    def __init__(self, config: RunConfig, outputs: Path | None = None) -> None:
        super().__init__(config, outputs)
        self.text = config.data.model_dump()

    @abstractmethod
    def make(self, folder: Path) -> None:
        """Write the prepared data to `folder`; raise UserError if the text is unusable."""

    @abstractmethod
    def open(self, folder: Path) -> None:
        """Open the prepared data in `folder`. The caller has checked that they are unchanged.

        Raises:
            UserError: the data do not fit the config.
        """

    def source(self) -> tuple[str, str]:
        return self.published.digest(self.text), self.published.describe(self.text)

    def folder_name(self) -> str:
        shape = {key: getattr(self.section, key) for key in self.shaping}
        digest = self.text["digest"] or self.source()[0]
        content = self.spelled({"format": self.format, "digest": digest, **shape})
        return f"{self.kind}-{hashlib.sha256(content.encode()).hexdigest()[:16]}"

    @staticmethod
    def spelled(content: Mapping[str, Any]) -> str:
        """Return `content` as a string. `folder_name` hashes this string."""
        return canonical(content)

    @cached_property
    def folder(self) -> Path:
        """The folder of the prepared data."""
        return child(self.outputs / "data", self.folder_name())

    def prepare_data(self) -> None:
        """Prepare the data unless they are on disk. Only one process at a time prepares them."""
        folder = self.folder
        digests = folder / DIGESTS  # written last
        # Return before taking the lock, because the folder may be read-only.
        if digests.is_file():
            return
        make_directory(folder.parent)
        with held(folder):
            if digests.is_file():
                return
            self._check_source()
            make_directory(folder)
            # Delete files that a killed process did not finish.
            for unfinished in folder.rglob(".*.tmp"):
                unfinished.unlink(missing_ok=True)
            self.make(folder)
            self._check_source()  # again, because the text may have changed meanwhile
            write_digests(folder, self._code())

    def _check_source(self) -> None:
        planned, found = self.text["digest"], self.source()[0]
        if planned not in (None, found):
            raise UserError(
                f"data.digest={planned}: expected the text for which the run was planned, but the "
                f"text's digest is now {found}; plan again, or restore the old text."
            )

    def check(self, *, again: bool = False) -> None:
        digest = check_digests(self.folder, self.outputs, again=again)
        self.facts = {"sha256": digest}

    def changed_code(self) -> list[str]:
        return differing([prepared_by(self.folder), self._code()])

    def _code(self) -> State:
        """Return the digests of the source files that prepare the data, by path.

        The files are the modules of this class and of its base classes, and all modules that these
        import. If a plugin defines the task, add all files of the plugin's package.
        """
        plugin = registry.files_of(registry.TASKS, self.config.task.name)
        modules = [
            f"{base.__module__.replace('.', '/')}.py" for base in type(self).__mro__
        ]
        return state_of_imports({**plugin, **loaded_code().files}, [*plugin, *modules])

    def setup(self, stage: str) -> None:
        """Open the data; raise UserError if they have changed since they were prepared."""
        self.check()
        self.open(self.folder)

    def tokens_seen(self, steps: int) -> int:
        tokens: int = self.section.batch_tokens
        return steps * tokens


class PreparedRows(PreparedData):
    """Prepared data in rows of at most `sequence_length` positions.

    Each epoch of training uses all rows, in a new random order.
    """

    Rows: ClassVar[Any]
    """The class that reads the rows of one split. Its argument is the folder of the split.

    An instance `rows` has `len(rows)`, the number of rows, and `rows.about`, the content of the
    split's JSON file.
    """

    @abstractmethod
    def take(self, split: str, numbers: np.ndarray) -> Batch:
        """Return the rows of a split with the given row numbers."""

    def open(self, folder: Path) -> None:
        self.splits = {split: self.Rows(folder / split) for split in SPLITS}
        self._rows = self.section.batch_tokens // self.section.sequence_length
        self._order = Shuffled(len(self.splits["train"]), self.config.seed)

    def batch(self, step: int) -> Batch:
        return self.take(
            "train", self._order.stretch((step - 1) * self._rows, self._rows)
        )

    def batches(self, split: str) -> Iterator[Batch]:
        numbers = np.arange(len(self.splits[split]))
        for first in range(0, len(numbers), self._rows):
            yield self.take(split, numbers[first : first + self._rows])
