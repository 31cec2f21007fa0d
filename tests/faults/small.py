"""A sweep as small as one can be, and what of it must be the same however it was disturbed."""

from __future__ import annotations

import shutil
from pathlib import Path

from sweeper.store.attempts import Cause
from sweeper.store.files import canonical
from sweeper.store.identity import run_id
from sweeper.store.metrics import read_metrics
from sweeper.store.runs import Run, RunStore
from tasks.parse import parse
from tasks.prepare import prepare, task_of
from tests.faults.count import Count
from tests.tasks.jobs import config, last_words

STEPS = 60
SMALL = config(
    {
        "model.layers": 1,
        "trainer.steps": STEPS,
        "trainer.micro_batches": ...,
        "trainer.log_every": 1,
        "trainer.validate_every": 20,
        "trainer.checkpoint_every": 3,
    }
)


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


def reference(outputs: Path) -> dict[str, str | None]:
    """The science of every run of a sweep that nobody disturbed."""
    store = RunStore(outputs)
    found = {name: science(store.run(name)) for name in store.ids()}
    assert found, outputs
    assert None not in found.values(), outputs
    return found
