"""A sweep as small as one can be, and what of it must be the same however it was disturbed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from sweeper.store.files import canonical
from sweeper.store.identity import run_id
from sweeper.store.metrics import read_metrics
from sweeper.store.runs import Attempt, Cause, Run, RunStore
from tasks.parse import parse
from tasks.prepare import prepare, task_of
from tests.faults.count import Count

STEPS = 60
SMALL: dict[str, Any] = {
    "seed": 3,
    "task": {
        "name": "lm1b",
        "vocabulary_size": 307,
        "sequence_length": 31,
        "batch_tokens": 3 * 31,
        "tokenizer_lines": 500,
    },
    "data": {
        "source": "sample",
        "root": None,
        "hub": {"path": None, "name": None, "revision": None},
        "sentences": 1009,
        "competitors": 7,
        "directions": 23,
        "digest": None,
    },
    "model": {
        "name": "decoder",
        "layers": 1,
        "embedding_size": 17,
        "heads": 3,
        "head_size": 5,
        "feedforward_size": 23,
        "activation": "relu",
        "tie_embeddings": True,
        "dropout": 0.1,
        "attention": {"name": "multi_head"},
    },
    "optimizer": {
        "learning_rate": 0.02,
        "schedule": "rsqrt",
        "warmup_steps": 5,
        "betas": [0.9, 0.997],
        "epsilon": 1.0e-9,
        "weight_decay": 0.01,
        "gradient_clip": 1.0,
    },
    "trainer": {
        "steps": STEPS,
        "precision": "32-true",
        "compile": False,
        "accelerator": "cpu",
        "devices": 1,
        "num_nodes": 1,
        "threads": 1,
        "log_every": 1,
        "validate_every": 20,
        "checkpoint_every": 3,
    },
    "logger": {"name": "none", "mode": "offline", "project": "headroom", "entity": None},
    "parent": None,
}


def prepared(folder: Path) -> Path:
    """An outputs folder with the data of the small runs, for the sweeps to start from."""
    task = task_of(parse(SMALL))
    prepare(task, folder)
    return folder


def freeze(source: Path, outputs: Path, runs: int) -> list[str]:
    """The records of so many small runs, which differ in their seed, in a new outputs folder."""
    shutil.copytree(source / "data", outputs / "data")
    store = RunStore(outputs)
    ids = []
    for seed in range(runs):
        config = {**SMALL, "seed": seed}
        record = {"id": run_id(config), "config": config, "size": {}, "names": {}}
        ids.append(store.freeze(record).id)
    return ids


def science(run: Run) -> str | None:
    """What a run found, as bytes to compare: rows, metrics, weights; nothing of when or how fast.

    None if the run is not finished.
    """
    result = run.result()
    if result is None:
        return None
    rows = [
        {key: value for key, value in row.items() if key not in ("tokens_per_second", "crc")}
        for row in run.history()
    ]
    kept = ("metrics", "steps", "tokens_seen", "weights_sha256", "data")
    return canonical([rows, {key: result[key] for key in kept}])


def compare(count: Count, outputs: Path, reference: dict[str, str | None]) -> None:
    """Count what differs from the undisturbed runs, and what the disturbance cost."""
    store = RunStore(outputs)
    for name, expected in reference.items():
        run = store.run(name)
        found = science(run)
        count.runs += 1
        count.unfinished += found is None
        count.wrong += found is not None and found != expected
        count.wrong += any(run.path.glob("differs-*"))
        count.needed += run.record()["config"]["trainer"]["steps"]
        words = last_words(run)
        count.second_finishers += max(0, [w.get("cause") for _, w in words].count(Cause.DONE) - 1)
        for attempt, _ in words:
            rows, _ = read_metrics(attempt.metrics_path)
            reached = max((row["step"] for row in rows), default=0)
            count.steps += max(0, reached - attempt.info().get("resumed_from", 0))


def last_words(run: Run) -> list[tuple[Attempt, dict[str, Any]]]:
    """Each attempt with what it said at its end; result.json says it of the one that finished."""
    finished = (run.result() or {}).get("attempt")
    done = {"cause": Cause.DONE}
    return [(one, done if one.number == finished else one.exit() or {}) for one in run.attempts()]


def reference(outputs: Path) -> dict[str, str | None]:
    """The science of every run of a sweep that nobody disturbed."""
    store = RunStore(outputs)
    found = {name: science(store.run(name)) for name in store.ids()}
    assert found, outputs
    assert None not in found.values(), outputs
    return found
