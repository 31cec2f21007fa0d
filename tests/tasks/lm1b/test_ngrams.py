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


def kneser_ney(counts, order, size):
    """Return the probability of a gram in a textbook's interpolated Kneser-Ney model."""
    if order == 0:
        return lambda gram: 1 / size
    shorter = kneser_ney(Counter(gram[1:] for gram in counts), order - 1, size)
    of_context, followers = Counter(), Counter(gram[:-1] for gram in counts)
    for gram, count in counts.items():
        of_context[gram[:-1]] += count

    def probability(gram):
        total, lower = of_context[gram[:-1]], shorter(gram[1:])
        if not total:
            return lower
        discounted = max(counts[gram] - ngrams.DISCOUNT, 0) / total
        return discounted + ngrams.DISCOUNT * followers[gram[:-1]] / total * lower

    return probability


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
        probability = kneser_ney(
            Counter(grams(segments(data, "train", rows), order)), order, size
        )
        logs = [
            math.log(probability(g))
            for g in grams(segments(data, "test", tested), order)
        ]
        found[f"test/{name}_perplexity"] = math.exp(-math.fsum(logs) / len(logs))
    return found


@pytest.mark.parametrize(
    "changes", [{}, {"task.joined": True}, {"data.sentences": 5003}]
)
def test_they_are_equal_to_a_slow_implementation(changes, shared):
    data = opened(shared, {**changes, "task.batch_tokens": 31}).data
    most = len(data.splits["train"])
    seen = min(most, 1000)
    expected = slow(data, Shuffled(most, 0).stretch(0, seen))
    found = ngrams.perplexities(data, seen)
    assert found == pytest.approx(expected, rel=1e-9, abs=0)


def test_runs_share_them_and_a_changed_file_is_one_sentence(shared):
    task = opened(shared)
    found = ngrams.perplexities(task.data, 19)
    metrics = ended(shared).result().metrics
    assert {name: metrics[name] for name in found} == found
    [path] = (shared / "data" / task.data.folder_name()).glob("ngrams-57.json")
    content = path.read_text()
    other = opened(shared, {"seed": 5, "task.batch_tokens": 31})
    assert ngrams.perplexities(other.data, 57) == found
    assert ngrams.perplexities(task.data, 0) == {}  # a run of 0 steps sees no rows
    assert path.read_text() == content
    path.write_text(content.replace("unigram", "uniform"))
    assert "changed after it was written" in refusal(evaluated, task)
