"""Tests that rows are read as they were written, with as little padding as possible."""

import numpy as np
import pytest

from tasks.fine_tuning.data import ROUND, Sequences, write

TEXTS = [
    ([11, 12], [13]),
    ([14], [15, 16, 17]),
    (list(range(20, 60)), [18]),
    ([], [19]),
]


@pytest.fixture
def folder(tmp_path):
    columns = {
        "seconds": [2 + len(first) for first, _ in TEXTS],
        "labels": [5, 7, 11, 13],
    }
    rows = [[2, *first, 3, *second, 3] for first, second in TEXTS]
    write(tmp_path / "train", rows, columns, {"kept": 4})
    return tmp_path / "train"


def test_a_row_is_two_texts_between_marks(folder):
    found = Sequences(folder).rows(np.array([1]), longest=ROUND)
    padding = [0] * (ROUND - 7)
    assert found["tokens"].tolist() == [[2, 14, 3, 15, 16, 17, 3, *padding]]
    assert found["token_type_ids"].tolist() == [[0, 0, 0, 1, 1, 1, 1, *padding]]
    assert (found["attention_mask"] == (found["tokens"] > 0)).all()


@pytest.mark.parametrize(
    ("numbers", "longest", "length"),
    [([0, 3], 128, ROUND), ([0, 2], 128, 2 * ROUND), ([0, 2], 47, 47)],
)
def test_a_batch_is_as_long_as_its_longest_row_and_never_longer_than_allowed(
    folder, numbers, longest, length
):
    found = Sequences(folder).rows(np.array(numbers), longest=longest)
    assert found["tokens"].shape == (2, length)
