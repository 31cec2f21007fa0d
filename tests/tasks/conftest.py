"""Fixtures: outputs folders with prepared data, and a fake of the library `datasets`."""

import importlib
import shutil
import sys
from types import SimpleNamespace

import pytest

from tests.tasks.jobs import ended, science
from tests.tasks.small import prepared_folder


@pytest.fixture(scope="session")
def _ready_to_fork():
    """Import the modules of jobs before tests fork, like the size server."""
    for name in ("torch._dynamo", "omegaconf", "tasks.training.job"):
        importlib.import_module(name)


@pytest.fixture(scope="session")
def _prepared_once(_ready_to_fork, tmp_path_factory):
    """An outputs folder with the prepared data of the small config. Tests get copies of it."""
    outputs = tmp_path_factory.mktemp("prepared")
    prepared_folder(outputs)
    return outputs


@pytest.fixture(scope="module")
def prepared(_prepared_once, tmp_path_factory):
    """An outputs folder with prepared data. All tests of a module put their runs into it."""
    return shutil.copytree(
        _prepared_once, tmp_path_factory.mktemp("module") / "outputs"
    )


@pytest.fixture(scope="module")
def shared(_ready_to_fork, tmp_path_factory):
    """An empty outputs folder that all tests of a module share. `opened` prepares data in it."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture
def outputs(_prepared_once, tmp_path):
    """An outputs folder for a single test, with prepared data and no runs."""
    return shutil.copytree(_prepared_once, tmp_path / "outputs")


@pytest.fixture(scope="session")
def undisturbed(_prepared_once, tmp_path_factory):
    """The reproducible results (see `science`) of a small run that was not interrupted."""
    outputs = tmp_path_factory.mktemp("one") / "outputs"
    return science(ended(shutil.copytree(_prepared_once, outputs)))


class HubSplit:
    """A fake of datasets.Dataset, with the members that the code uses."""

    def __init__(self, columns, features):
        self.columns, self.features = columns, features
        self.column_names = list(columns)

    def select_columns(self, names):
        return HubSplit({name: self.columns[name] for name in names}, self.features)

    def iter(self, batch_size):
        yield self.columns

    def __iter__(self):
        for row in zip(*self.columns.values(), strict=True):
            yield dict(zip(self.columns, row, strict=True))


@pytest.fixture
def hub(monkeypatch):
    """Return a function that replaces `datasets` by a fake with given splits.

    The function returns a list, to which each call of `load_dataset` appends its arguments.
    """

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
