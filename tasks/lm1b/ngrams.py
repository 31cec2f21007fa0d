"""Unigram, bigram and trigram models of tokens, as baselines for perplexities.

They are interpolated Kneser-Ney models (Chen and Goodman 1999, section 2.7). The discount is fixed,
so nothing is tuned. An n-gram is stored as one number, whose digits in base V (the vocabulary size)
are its token ids. The context of a segment's first tokens is padded with PAD, which is never a
target.

Shapes: N n-grams of the training rows, T n-grams of the test split.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

from sweeper.store.files import FORMAT, publish_with_checksum, read_versioned
from sweeper.store.liveness import held
from tasks.batch import Floats, Integers
from tasks.lm1b.data import PackedRows, PackedText
from tasks.seeds import permutation

ORDERS = {"unigram": 1, "bigram": 2, "trigram": 3}
DISCOUNT = 0.75
# Fit the models to at most this many tokens. Sorting them takes about 3 GB.
MOST_TOKENS = 1 << 26
ROWS_TOGETHER = 4096  # read this many rows at a time


def perplexities(data: PackedText, steps: int) -> dict[str, float]:
    """Return the test perplexity per token of each n-gram model, as `test/<name>_perplexity`.

    The n-gram models are fitted to the training rows that a run with seed 0 sees in `steps` steps.
    If the run would see a row again in a later epoch, the row still counts once. At most
    MOST_TOKENS tokens are used. The result is saved in the folder of the prepared data, where runs
    that see the same number of rows find it. If `steps` is 0, return {}.
    """
    if steps == 0:
        return {}
    train = data.splits["train"]
    most = MOST_TOKENS // train.sequence_length
    seen = min(data.tokens_seen(steps) // train.sequence_length, len(train), most)
    path = data.folder / f"ngrams-{seen}.json"
    found = _stored(path)
    if found is None:
        # Suppress OSError, because the folder may be read-only. Read the file again under the lock,
        # because another process may have written it before this process got the lock.
        with suppress(OSError), held(path):
            found = _stored(path) or _computed(data.splits, seen)
            publish_with_checksum(path, {"format": FORMAT, "perplexities": found})
    return found or _computed(data.splits, seen)


def _stored(path: Path) -> dict[str, float] | None:
    content = read_versioned(path, keys=("perplexities",))
    return content and content["perplexities"]


def _computed(splits: Mapping[str, PackedRows], seen: int) -> dict[str, float]:
    train, test = splits["train"], splits["test"]
    fitted_N = trigrams(train, permutation(len(train), 0, "epoch", 0)[:seen])
    tested_T = trigrams(test, np.arange(len(test)))
    size = train.about["vocabulary_size"]
    found = {}
    for name, order in ORDERS.items():
        nats = -np.log(probabilities(fitted_N, tested_T, size, order)).mean()
        found[f"test/{name}_perplexity"] = float(np.exp(nats))
    return found


def trigrams(rows: PackedRows, numbers: Integers) -> Integers:
    """Return an array (N,): for each target of these rows, the trigram that ends at the target."""
    starts = range(0, len(numbers), ROWS_TOGETHER)
    parts = [
        _trigrams(rows, numbers[start : start + ROWS_TOGETHER]) for start in starts
    ]
    return np.concatenate([np.empty(0, np.int64), *parts])


def _trigrams(rows: PackedRows, numbers: Integers) -> Integers:
    size = rows.about["vocabulary_size"]
    batch = rows.rows(numbers)
    third_BT, second_BT = batch["targets"], batch["tokens"]
    first_BT = np.zeros_like(second_BT)
    first_BT[:, 1:] = second_BT[:, :-1]
    # At position 0, the shifted token belongs to the previous segment, so replace it by PAD.
    first_BT[batch["positions"] == 0] = 0
    trigrams_BT = (first_BT * size + second_BT) * size + third_BT
    return trigrams_BT[batch["segments"] > 0]


def probabilities(
    fitted_N: Integers, tested_T: Integers, size: int, order: int
) -> Floats:
    """Return the probability (T,) of each tested n-gram's last token, given its other tokens.

    p(w | context) = (max(c(context w) - D, 0) + D types(context) p(w | shorter)) / c(context)

    c counts occurrences in `fitted_N`, D is DISCOUNT, and types(context) is the number of different
    tokens that follow the context. p(w | shorter) is the probability under the model of order - 1.
    This model is fitted to the distinct n-grams, each without its first token. If the context does
    not occur in `fitted_N`, return p(w | shorter).

    Args:
        fitted_N: n-grams of the given order or a higher one. In n-grams of a higher order, the
            surplus first tokens are ignored.
        tested_T: like `fitted_N`.
        size: the vocabulary size.
        order: the number of tokens of an n-gram.
    """
    if order == 0:
        return np.full(len(tested_T), 1 / size)
    kinds = size**order
    fitted_N, tested_T = np.sort(fitted_N % kinds), tested_T % kinds
    types = fitted_N[np.diff(fitted_N, prepend=-1) > 0]
    lower_T = probabilities(types, tested_T, size, order - 1)

    context_T = tested_T - tested_T % size
    counts_T = _within(fitted_N, tested_T, 1)
    contexts_T = _within(fitted_N, context_T, size)
    types_T = _within(types, context_T, size)
    discounted_T = np.maximum(counts_T - DISCOUNT, 0) + DISCOUNT * types_T * lower_T
    return np.where(contexts_T > 0, discounted_T / np.maximum(contexts_T, 1), lower_T)


def _within(ordered_N: Integers, first_T: Integers, width: int) -> Integers:
    """Return an array (T,): for each f in `first_T`, how many of `ordered_N` are in [f, f + width).

    `ordered_N` must be sorted.
    """
    ends_T = np.searchsorted(ordered_N, first_T + width)
    return ends_T - np.searchsorted(ordered_N, first_T)
