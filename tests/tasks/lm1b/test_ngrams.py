"""Tests of the n-gram models against a slow implementation, and of which runs share them."""

import math
from collections import Counter

import numpy as np
import pytest

from tasks.lm1b import ngrams
from tasks.seeds import Shuffled
from tests.refusals import refusal
from tests.tasks.jobs import ended
from tests.tasks.lm1b.test_data import segments_of
from tests.tasks.small import evaluated, opened

ROW_A_STEP = {"task.batch_tokens": 31}


class KneserNey:
    """A textbook implementation of interpolated Kneser-Ney models, with dictionaries of tuples."""

    def __init__(self, counts, order, size):
        self.order, self.size = order, size
        self.counts, self.of_context = counts, Counter()
        for gram, count in counts.items():
            self.of_context[gram[:-1]] += count
        self.followers = Counter(gram[:-1] for gram in counts)
        if order > 1:
            self.shorter = KneserNey(
                Counter(gram[1:] for gram in self.counts), order - 1, size
            )

    def probability(self, gram):
        lower = self.shorter.probability(gram[1:]) if self.order > 1 else 1 / self.size
        total = self.of_context[gram[:-1]]
        if not total:
            return lower
        discounted = max(self.counts[gram] - ngrams.DISCOUNT, 0) / total
        return discounted + ngrams.DISCOUNT * self.followers[gram[:-1]] / total * lower


def segments(data, split, numbers):
    return segments_of(data.splits[split].rows(numbers))


def grams(segments, order):
    for pieces in segments:
        padded = (0,) * (order - 1) + pieces
        for end in range(order, len(padded) + 1):
            yield padded[end - order : end]


def slow(data, rows):
    """Return the test perplexities of models that are fitted to these training rows."""
    size = data.splits["train"].about["vocabulary_size"]
    tested = np.arange(len(data.splits["test"]))
    found = {}
    for name, order in {"unigram": 1, "bigram": 2, "trigram": 3}.items():
        model = KneserNey(
            Counter(grams(segments(data, "train", rows), order)), order, size
        )
        logs = [
            math.log(model.probability(g))
            for g in grams(segments(data, "test", tested), order)
        ]
        found[f"test/{name}_perplexity"] = math.exp(-math.fsum(logs) / len(logs))
    return found


@pytest.mark.parametrize(
    "changes", [{}, {"task.joined": True}, {"data.sentences": 5003}]
)
def test_they_are_equal_to_a_slow_implementation(changes, shared):
    data = opened(shared, {**changes, **ROW_A_STEP}).data
    most = len(data.splits["train"])
    seen = min(most, 1000)
    expected = slow(data, Shuffled(most, 0).stretch(0, seen))
    found = ngrams.perplexities(data, seen)
    assert found == pytest.approx(expected, rel=1e-9, abs=0)
    assert found["test/unigram_perplexity"] > found["test/bigram_perplexity"]


def test_runs_share_them_and_a_changed_file_is_one_sentence(shared):
    task = opened(shared)
    found = ngrams.perplexities(task.data, 19)
    metrics = ended(shared).result()["metrics"]
    assert {name: metrics[name] for name in found} == found
    [path] = (shared / "data" / task.data.folder_name()).glob("ngrams-57.json")
    content = path.read_text()
    other = opened(shared, {"seed": 5, "task.batch_tokens": 31})
    assert ngrams.perplexities(other.data, 57) == found
    assert ngrams.perplexities(task.data, 0) == {}  # a run of 0 steps sees no rows
    assert path.read_text() == content
    path.write_text(content.replace("unigram", "uniform"))
    assert "changed after it was written" in refusal(evaluated, task)
