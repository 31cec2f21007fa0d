"""Measures of a trained language model's heads: rank of the logits, entropy of the weights."""

import numpy as np
import torch

from models.attention_map import head_measures
from tasks.batch import moved
from tasks.module import TaskModule

# Measure this many rows of the test split. Rank and entropy hardly vary between rows.
MEASURED_ROWS = 4


def measure(module: TaskModule) -> dict[str, float]:
    """Return the mean rank and entropy of a model's heads on a few rows of the test split.

    Return {} if the model does not use scaled_dot_product_attention.
    """
    few = np.arange(min(MEASURED_ROWS, len(module.data.splits["test"])))
    batch = moved(module.data.take("test", few), module.device)
    with module.autocast():
        attentions = head_measures(lambda: module(batch), batch["segments"] > 0)
    if not attentions:
        return {}

    ranks = torch.cat([one.rank_H for one in attentions])
    entropies = torch.cat([one.entropy_H for one in attentions])
    return {
        "test/attention_rank": float(ranks.mean()),
        "test/attention_entropy": float(entropies.mean()),
    }
