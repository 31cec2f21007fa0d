"""Small configs of the fine-tuning tasks, and of a pre-training that they can start from."""

from __future__ import annotations

import copy
from typing import Any

from tests.tasks.jobs import config
from tests.tasks.pretraining_job import SMALL

ENCODER = {**SMALL["model"], "positions": 61, "initializer_range": 0.02}
MNLI = {"name": "mnli", "sequence_length": 37, "batch_tokens": 5 * 37}
SQUAD = {
    "name": "squad",
    "sequence_length": 29,
    "batch_tokens": 5 * 29,
    "question_length": 13,
    "stride": 7,
    "candidates": 19,
    "answer_length": 11,
}
SHARED = {"tokenizer": None, "vocabulary_size": 1009, "tokenizer_lines": 5003}
PRETRAINING = {
    "name": "pretraining",
    "vocabulary_size": 1009,
    "tokenizer_lines": 5003,
    "documents": "blank_line",
    "sequence_length": 29,
    "batch_tokens": 3 * 29,
    "second_phase": {"steps": 0, "sequence_length": 31, "batch_tokens": 31, "warmup_steps": 1},
}


def fine_tuning(task: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """The small config of a task; dotted keys of `changes` are written with two underscores."""
    dotted = {key.replace("__", "."): value for key, value in changes.items()}
    own = {} if task is PRETRAINING else SHARED
    return config(
        {
            "task": {**own, **task},
            "model": copy.deepcopy(ENCODER),
            "data.sentences": 1009,
            "optimizer.schedule": "linear",
            "trainer.steps": 7,
            **dotted,
        }
    )
