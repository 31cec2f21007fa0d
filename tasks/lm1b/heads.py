"""The rank and the entropy of the heads of a trained language model."""

from typing import Any, NamedTuple

import numpy as np
import torch

from models.attention_map import head_measures
from models.head_sizes import heads_by_layer
from tasks.batch import moved
from tasks.module import TaskModule

# Measure this many rows of the test split. Rank and entropy hardly vary between rows.
MEASURED_ROWS = 4


class HeadMetrics(NamedTuple):
    """The rank and the entropy of all heads of a model.

    Attributes:
        means: the mean over all heads, by metric.
        layers: for each layer, the rank and the entropy of each head.
    """

    means: dict[str, float]
    layers: list[dict[str, list[float]]]


def measure(module: TaskModule) -> HeadMetrics:
    """Measure the heads on a few rows of the test split.

    If the model does not use scaled_dot_product_attention, the result is empty.
    """
    few = np.arange(min(MEASURED_ROWS, len(module.data.splits["test"])))
    batch = moved(module.data.take("test", few), module.device)
    with module.autocast():
        attentions = head_measures(lambda: module(batch), batch["segments"] > 0)
    if not attentions:
        return HeadMetrics({}, [])

    ranks = [one.rank_H for one in attentions]
    entropies = [one.entropy_H for one in attentions]
    means = {
        "test/attention_rank": float(torch.cat(ranks).mean()),
        "test/attention_entropy": float(torch.cat(entropies).mean()),
    }

    model: Any = module.config.model
    layers = getattr(model, "layers", len(attentions))
    sizes = (layers, model.heads, model.resolved_head_size)
    by_layer = zip(
        heads_by_layer(ranks, *sizes), heads_by_layer(entropies, *sizes), strict=True
    )
    return HeadMetrics(
        means,
        [
            {"rank": rank_H.tolist(), "entropy": entropy_H.tolist()}
            for rank_H, entropy_H in by_layer
        ],
    )
