"""The smallest config of each task, as changes to that of lm1b in tests/tasks/jobs.py."""

import torch

from tasks.parse import parse, task_of
from tasks.prepare import open_data
from tasks.task import Evaluator
from tests.tasks.jobs import CONFIG, config

_SHARED = (
    *("layers", "embedding_size", "heads", "head_size", "feedforward_size"),
    *("tie_embeddings", "dropout", "attention"),
)
_ENCODER = {
    **{key: CONFIG["model"][key] for key in _SHARED},
    "name": "encoder",
    "activation": "gelu",
    "positions": 71,
    "initializer_range": 0.1,
}
_PIECES = {"tokenizer": None, "vocabulary_size": 307, "tokenizer_lines": 500}
_LAYER = {"name": "layer", "heads": 1, "head_size": 3, "attention": {"name": "multi_head"}}
_FINE_TUNED = {"model": _ENCODER, "optimizer.schedule": "linear", "trainer.steps": 7}

PRETRAINING = {
    "task": {
        "name": "pretraining",
        "vocabulary_size": 307,
        "tokenizer_lines": 500,
        "documents": "blank_line",
        "sequence_length": 43,
        "batch_tokens": 3 * 43,
        "second_phase": {
            "steps": 5,
            "sequence_length": 67,
            "batch_tokens": 2 * 67,
            "warmup_steps": 2,
        },
    },
    "model": _ENCODER,
    "optimizer.learning_rate": 0.01,
    "optimizer.schedule": "linear",
    "optimizer.warmup_steps": 3,
    "optimizer.betas": [0.9, 0.999],
    "optimizer.epsilon": 1.0e-6,
}
MNLI = {
    "task": {"name": "mnli", "sequence_length": 37, "batch_tokens": 5 * 37, **_PIECES},
    **_FINE_TUNED,
}
SQUAD = {
    "task": {
        "name": "squad",
        "sequence_length": 29,
        "batch_tokens": 5 * 29,
        "question_length": 13,
        "stride": 7,
        "candidates": 19,
        "answer_length": 11,
        **_PIECES,
    },
    **_FINE_TUNED,
}
REPRESENTATION = {
    "task": {
        "name": "representation",
        "mask": "bidirectional",
        "sequence_length": 5,
        "problems_per_run": 11,
        "logit_scale": 1.0,
    },
    "model": {**_LAYER, "embedding_size": 7},
    "trainer.precision": "64-true",
}
NEAREST_NEIGHBOUR = {
    "task": {"name": "nearest_neighbour", "points": 7, "batch_rows": 3, "sharpness": 11.0},
    "model": {**_LAYER, "embedding_size": 5},
}
SMALL = {
    "lm1b": {},
    "pretraining": PRETRAINING,
    "mnli": MNLI,
    "squad": SQUAD,
    "representation": REPRESENTATION,
    "nearest_neighbour": NEAREST_NEIGHBOUR,
}

CPU = Evaluator(torch.device("cpu"), "32-true")


def made(changes={}):  # noqa: B006 (never changed)
    """Return the task of this config."""
    return task_of(parse(config(changes)))


def opened(outputs, changes={}):  # noqa: B006
    """Return the task of this config with its data prepared and open."""
    task = made(changes)
    open_data(task, outputs)
    return task
