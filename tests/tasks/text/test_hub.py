"""Text of the hub: lines of its text column, or one sentence for what does not serve."""

import sys
import types

import pytest

from sweeper.store.errors import UserError
from tests.tasks.text.corpora import CORPORA, HUB, everything, read, sentences


@pytest.mark.parametrize("has_test", [True, False], ids=["own_test", "no_test"])
def test_the_hub_gives_lines_of_its_text_column(tmp_path, monkeypatch, has_test):
    columns = {"train": ["two\nlines", None, "lone \udcff", *sentences(500)]}
    if has_test:
        columns["test"] = sentences(3, 500)
    fake_datasets(monkeypatch, {name: {"text": rows} for name, rows in columns.items()})
    splits, counts = read({"source": "hub", "hub": HUB}, tmp_path)
    texts = everything(splits)
    assert {"two", "lines"} < set(texts)
    assert len(texts) == 503 + 3 * has_test
    assert sum(count.total for count in counts.values()) == len(texts) + 1
    assert not has_test or splits["test"] == sentences(3, 500)


def fake_datasets(monkeypatch, columns):
    """Puts a `datasets` in place that serves these columns and records what it is asked for."""

    class Split:
        def __init__(self, column):
            self.column_names = list(column)
            self.column = column

        def iter(self, batch_size):
            yield self.column

    class DatasetsError(Exception):
        pass

    def load_dataset(path, name, revision):
        if columns is None:
            raise ConnectionError("no way to the hub\nand more")
        assert (path, name, revision) == (HUB["path"], HUB["name"], HUB["revision"])
        return {name: Split(column) for name, column in columns.items()}

    module = types.ModuleType("datasets")
    module.load_dataset = load_dataset
    module.exceptions = types.SimpleNamespace(DatasetsError=DatasetsError)
    monkeypatch.setitem(sys.modules, "datasets", module)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        pytest.param(None, "cannot be loaded (no way to the hub)", id="no_connection"),
        pytest.param({"test": {"text": []}}, "a split train", id="no_train"),
        pytest.param({"train": {"words": []}}, "a column text", id="no_text"),
    ],
)
def test_a_dataset_that_does_not_serve_is_refused(tmp_path, monkeypatch, columns, sentence):
    fake_datasets(monkeypatch, columns)
    with pytest.raises(UserError) as caught:
        CORPORA.open({"source": "hub", "hub": HUB}, tmp_path)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
