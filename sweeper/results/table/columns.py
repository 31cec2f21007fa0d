"""What the columns of a table mean to a reader: their words, their numbers, which way is better."""

from __future__ import annotations

import math
from typing import Any

from sweeper.store.errors import wrong

LABELS = {
    "params_total": "total parameters",
    "params_embedding": "embedding parameters",
    "params_non_embedding": "non-embedding parameters",
    "flops_per_token": "training FLOPs per token",
    "width": "key/value width",
    "model.layers": "layers",
    "model.embedding_size": "embedding size",
    "model.heads": "heads",
    "model.head_size": "head size",
    "model.feedforward_size": "feed-forward size",
    "model.attention.shared_size": "shared key/query size",
    "test/loss": "test loss (nats per subword)",
    "test/perplexity": "test perplexity per subword",
    "test/perplexity_per_word": "test perplexity per word",
    "test/f1": "F1",
    "test/exact_match": "exact match",
    "test/accuracy": "accuracy (%)",
    "test/majority_accuracy": "accuracy of the majority class (%)",
    "test/bag_of_words_accuracy": "accuracy of a bag of words (%)",
    "test/context_error": "error of the context",
    "test/relative_error": "relative squared error",
    "test/attention_rank": "rank of a head's logits",
    "test/attention_entropy": "entropy of attention (nats)",
    "validation/loss": "validation loss (nats per subword)",
    "optimizer.learning_rate": "learning rate",
    "task.sequence_length": "sequence length",
    "model.attention.value_size": "value size",
}

# By the last part of a metric's name: -1 if lower is better, 1 if higher is.
DIRECTIONS = {
    "loss": -1,
    "perplexity": -1,
    "perplexity_per_word": -1,
    "accuracy": 1,
    "f1": 1,
    "exact_match": 1,
    "context_error": -1,
    "relative_error": -1,
}

# By the same: metrics whose ratios are judged, being positive and grown by factors.
LOGARITHMIC = ("perplexity", "perplexity_per_word", "context_error", "relative_error")
# From this ratio of the largest to the smallest value on, a scale is logarithmic, and says so.
LOGARITHMIC_FROM = 10.0
# An error below it counts as none: how far below says only how long a fit went on.
RESOLUTION = {"context_error": 1e-4}


def label(column: str) -> str:
    """The words for a column; its own name where it has none."""
    return LABELS.get(column, column)


def cell(column: str, value: Any) -> Any:
    """What a cell of a column is shown as: in the unit that the words for the column name."""
    known = number(value)
    return value if known is None or column not in LABELS else factor(column) * known


def direction(metric: str) -> int:
    """-1 if lower values of `metric` are better, 1 if higher ones are.

    Raises:
        UserError: nothing is known of this metric.
    """
    try:
        return DIRECTIONS[metric.rpartition("/")[2]]
    except KeyError:
        known = ", ".join(DIRECTIONS)
        remedy = "judge the experiment on another metric or add it to DIRECTIONS"
        raise wrong("metric", metric, f"a name that ends in one of {known}", remedy) from None


def factor(metric: str) -> int:
    """What `metric` is multiplied by to be shown: an accuracy is stored as a fraction."""
    return 100 if metric.endswith("accuracy") else 1


def number(value: Any) -> float | None:
    """`value` as a finite number; None for anything else, such as booleans and words."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)
