"""Outputs folders with prepared data."""

import importlib
import shutil
import sys
from types import SimpleNamespace

import pytest
import torch

from tests.tasks.jobs import ended, science
from tests.tasks.small import prepared_folder


@pytest.fixture(scope="session")
def _ready_to_fork():
    """One thread, and what jobs import while they run imported before, as the server does it."""
    for name in ("torch._dynamo", "omegaconf", "tasks.training.job"):
        importlib.import_module(name)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def _prepared_once(_ready_to_fork, tmp_path_factory):
    """The prepared data of the small config; tests get copies of it."""
    outputs = tmp_path_factory.mktemp("prepared")
    prepared_folder(outputs)
    return outputs


@pytest.fixture(scope="module")
def prepared(_prepared_once, tmp_path_factory):
    """An outputs folder with the prepared data, which the tests of a module share with its runs."""
    return shutil.copytree(
        _prepared_once, tmp_path_factory.mktemp("module") / "outputs"
    )


@pytest.fixture(scope="module")
def shared(_ready_to_fork, tmp_path_factory):
    """An outputs folder that the tests of a module share; `opened` prepares what a task needs."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture
def outputs(_prepared_once, tmp_path):
    """An outputs folder of the test's own, with the prepared data and no runs."""
    return shutil.copytree(_prepared_once, tmp_path / "outputs")


@pytest.fixture(scope="session")
def undisturbed(_prepared_once, tmp_path_factory):
    """The science of the small run when nothing disturbs it."""
    outputs = tmp_path_factory.mktemp("one") / "outputs"
    return science(ended(shutil.copytree(_prepared_once, outputs)))


class HubSplit:
    """As much of datasets.Dataset as is used."""

    def __init__(self, columns, features):
        self.columns, self.column_names, self.features = (
            columns,
            list(columns),
            features,
        )

    def select_columns(self, names):
        return HubSplit({name: self.columns[name] for name in names}, self.features)

    def iter(self, batch_size):
        yield self.columns


@pytest.fixture
def hub(monkeypatch):
    """Put a `datasets` in place that serves these splits; returns the requests it gets."""

    def install(splits, features=({}, {}, {})):
        asked = []

        def load_dataset(path, **options):
            if splits is None:
                raise ConnectionError("no way to the hub\nand more")
            asked.append((path, options))
            found = zip(splits.items(), features, strict=False)
            return {name: HubSplit(columns, of) for (name, columns), of in found}

        errors = SimpleNamespace(DatasetsError=OSError)
        fake = SimpleNamespace(load_dataset=load_dataset, exceptions=errors)
        monkeypatch.setitem(sys.modules, "datasets", fake)
        return asked

    return install
