"""What runs take of a GPU's memory, before any is started; what does not fit, and what would."""

from __future__ import annotations

import copy
import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, ClassVar, TypeGuard

from sweeper.plan.plan import Plan, Run
from sweeper.plan.sizes import Invalid, Size, Sizes
from sweeper.size_server import SizeServer
from sweeper.store.errors import UserError
from sweeper.store.runs import Run as Record
from sweeper.store.runs import RunStore

GB = 1e9
TRIED = (2, 4, 8, 16, 32)
"""Devices, and parts of a batch, that are looked at where one is too small."""
MOST_SHAPES = 200
"""Runs of more shapes than this are not looked at: each takes a second."""

Config = Mapping[str, Any]


class GpuMemory(Sizes):
    """Bytes on a GPU: of a `process`, and of live tensors in `training` and in `evaluation`.

    What finished runs took corrects it: those of the same shape, or of the same task.
    """

    operation: ClassVar[str] = "memory"
    trainer: ClassVar[tuple[str, ...]] = ("devices", "num_nodes", "micro_batches")

    def __init__(self, process: SizeServer, outputs: Path) -> None:
        super().__init__(process, outputs / "cache" / "gpu_memory.json")
        self._measured: dict[Hashable, list[float]] = {}

    def of_runs(self, store: RunStore, configs: Mapping[str, Config]) -> dict[str, float]:
        """GB that a process of each run takes, by id; none of them if they are of many shapes."""
        if len({self.name(config) for config in configs.values()}) > MOST_SHAPES:
            return {}
        self._learn(_finished(store.run(id) for id in configs))
        needs = zip(configs, self.gigabytes(list(configs.values())), strict=True)
        return {id: need for id, need in needs if need is not None}

    def gigabytes(self, configs: Sequence[Config]) -> list[float | None]:
        """What a process of each run takes; None where it is next to nothing, or unknown."""
        answers = zip(configs, self.answers(configs), strict=True)
        return [
            answer["process"] / GB * self._correction(config) if _said(answer) else None
            for config, answer in answers
        ]

    def _learn(self, finished: Sequence[tuple[Config, int]]) -> None:
        answers = self.answers([config for config, _ in finished])
        for (config, taken), answer in zip(finished, answers, strict=True):
            if _said(answer):
                ratio = taken / max(answer["training"], answer["evaluation"])
                for name in self._likeness(config):
                    self._measured.setdefault(name, []).append(ratio)

    def _correction(self, config: Config) -> float:
        found = (self._measured.get(name) for name in self._likeness(config))
        return next((median(ratios) for ratios in found if ratios), 1.0)

    def _likeness(self, config: Config) -> tuple[Hashable, ...]:
        return self.name(config), ("task", config["task"]["name"])

    def _ask(self, configs: Sequence[Config]) -> list[dict[str, Any]]:
        shares = min(len(os.sched_getaffinity(0)), len(configs))
        told = self._process.ask(
            {"op": self.operation, "configs": configs[first::shares]} for first in range(shares)
        )
        answers: list[dict[str, Any]] = [{} for _ in configs]
        for first, answer in enumerate(told):
            if "error" in answer:
                raise UserError(str(answer["error"]))
            answers[first::shares] = answer["answers"]
        return answers


def _said(answer: Size | Invalid) -> TypeGuard[Size]:
    return isinstance(answer, dict) and bool(answer)


def _finished(runs: Iterable[Record]) -> list[tuple[Config, int]]:
    """Configs of runs that are done, as they were trained, and the bytes they took of a GPU."""
    found: list[tuple[Config, int]] = []
    for run in runs:
        result = run.result() or {}
        if taken := result.get("max_memory_allocated"):
            config = run.record()["config"]
            found.append((_with(config, "micro_batches", result.get("micro_batches", 1)), taken))
    return found


def is_for_gpus(plan: Plan) -> bool:
    """Whether a plan is meant for GPUs, wherever it is made: bfloat16 gains nothing elsewhere."""
    return any(run.config["trainer"]["precision"] == "bf16-mixed" for run in plan.runs.values())


def predicted(process: SizeServer, plan: Plan, limit: float | None) -> dict[str, float]:
    """The GB of GPU memory that runs of a plan take; none of them where they are of many shapes.

    Raises:
        UserError: a run takes more than `limit`.
    """
    memory = GpuMemory(process, plan.outputs)
    try:
        configs = {run.id: run.config for run in plan.runs.values()}
        known = memory.of_runs(RunStore(plan.outputs), configs)
        if limit is not None:
            _check_fits(memory, plan, known, limit)
    finally:
        memory.save()
    return known


def _check_fits(memory: GpuMemory, plan: Plan, needs: dict[str, float], limit: float) -> None:
    """Refuse runs of which one does not fit; what would make it fit is offered.

    A run that is worked off in as many parts as it needs is taken to be in so many.

    Raises:
        UserError: the run that needs most, what it needs, and what it would need otherwise.
    """
    large = []
    for run in plan.runs.values():
        if needs.get(run.id, 0) > limit:
            auto = run.config["trainer"].get("micro_batches") == "auto"
            fewest = _fewest(memory, run, "micro_batches", limit) if auto else None
            needs[run.id] = fewest[1] if fewest else needs[run.id]
            large += [] if fewest else [run]
    if not large:
        return
    run = max(large, key=lambda run: needs[run.id])
    found = {key: _fewest(memory, run, key, limit) for key in ("devices", "micro_batches")}
    offers = [f"trainer.{key}={one[0]} ({one[1]:.0f} GB)" for key, one in found.items() if one]
    more = f" (as do {len(large) - 1} more runs)" if len(large) > 1 else ""
    raise UserError(
        f"{run.label} needs {needs[run.id]:.0f} GB of GPU memory, more than "
        f"hydra.launcher.gpu_memory_gb={limit:g}{more}; "
        f"give it {' or '.join(offers) or 'a smaller model: neither devices nor parts are enough'}."
    )


def _fewest(memory: GpuMemory, run: Run, key: str, limit: float) -> tuple[int, float] | None:
    """The least of a key of `trainer` with which a run fits, and the GB it takes then."""
    now = run.config["trainer"][key]
    counts = [count for count in TRIED if now == "auto" or count > now]
    needs = memory.gigabytes([_with(run.config, key, count) for count in counts])
    for count, need in zip(counts, needs, strict=True):
        if need is not None and need <= limit:
            return count, need
    return None


def _with(config: Config, key: str, value: Any) -> dict[str, Any]:
    """The config with another value of a key of `trainer`."""
    changed = copy.deepcopy(dict(config))
    changed["trainer"][key] = value
    return changed
