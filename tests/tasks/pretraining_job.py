"""A pre-training as small as one can be, in two phases."""

from __future__ import annotations

import copy
from typing import Any

from tests.tasks.jobs import config

SECOND = {"steps": 5, "sequence_length": 67, "batch_tokens": 2 * 67, "warmup_steps": 2}
SMALL: dict[str, Any] = {
    "task": {
        "name": "pretraining",
        "vocabulary_size": 307,
        "tokenizer_lines": 500,
        "documents": "blank_line",
        "sequence_length": 43,
        "batch_tokens": 3 * 43,
        "second_phase": SECOND,
    },
    "model": {
        "name": "encoder",
        "layers": 2,
        "embedding_size": 17,
        "heads": 3,
        "head_size": 5,
        "feedforward_size": 23,
        "activation": "gelu",
        "tie_embeddings": True,
        "dropout": 0.1,
        "positions": 71,
        "initializer_range": 0.1,
        "attention": {"name": "multi_head"},
    },
    "optimizer": {
        "learning_rate": 0.01,
        "schedule": "linear",
        "warmup_steps": 3,
        "betas": [0.9, 0.999],
        "epsilon": 1.0e-6,
        "weight_decay": 0.01,
        "gradient_clip": 1.0,
    },
}


def small(changes: dict[str, Any] = {}) -> dict[str, Any]:  # noqa: B006 (never changed)
    return config({**copy.deepcopy(SMALL), **changes})
