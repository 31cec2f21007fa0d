"""Outputs folders with prepared data."""

from __future__ import annotations

import importlib
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tasks.parse import parse
from tasks.prepare import prepare, task_of
from tests.tasks.jobs import config


@pytest.fixture(scope="session")
def _ready_to_fork() -> Iterator[None]:
    """One thread, and what jobs import while they run imported before, as the server does it."""
    for name in ("torch._dynamo", "omegaconf"):
        importlib.import_module(name)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def _prepared_once(_ready_to_fork: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The prepared data of the small config; tests get copies of it."""
    outputs = tmp_path_factory.mktemp("prepared")
    prepare(task_of(parse(config())), outputs)
    return outputs


@pytest.fixture(scope="module")
def prepared(_prepared_once: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An outputs folder with the prepared data, which the tests of a module share with its runs."""
    return shutil.copytree(_prepared_once, tmp_path_factory.mktemp("module") / "outputs")


@pytest.fixture(scope="module")
def shared(_ready_to_fork: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An outputs folder that the tests of a module share; `opened` prepares what a task needs."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture
def outputs(_prepared_once: Path, tmp_path: Path) -> Path:
    """An outputs folder of the test's own, with the prepared data and no runs."""
    return shutil.copytree(_prepared_once, tmp_path / "outputs")


class HubSplit:
    """As much of datasets.Dataset as is used."""

    def __init__(self, columns: dict[str, list[Any]]) -> None:
        self.columns, self.column_names = columns, list(columns)

    def select_columns(self, names: list[str]) -> HubSplit:
        return HubSplit({name: self.columns[name] for name in names})

    def iter(self, batch_size: int) -> Iterator[dict[str, list[Any]]]:
        yield self.columns


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], list[Any]]:
    """Put a `datasets` in place that serves these splits; returns the requests it gets."""

    def install(splits: dict[str, dict[str, list[Any]]] | None) -> list[Any]:
        asked: list[Any] = []

        def load_dataset(path: str, **options: Any) -> dict[str, HubSplit]:
            if splits is None:
                raise ConnectionError("no way to the hub\nand more")
            asked.append((path, options))
            return {name: HubSplit(columns) for name, columns in splits.items()}

        errors = SimpleNamespace(DatasetsError=OSError)
        fake = SimpleNamespace(load_dataset=load_dataset, exceptions=errors)
        monkeypatch.setitem(sys.modules, "datasets", fake)
        return asked

    return install
