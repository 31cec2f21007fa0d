"""What runs take of a GPU's memory, before any is started; what does not fit, and what would."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar

from sweeper.model_process import ModelProcess
from sweeper.plan.plan import Plan, Run
from sweeper.plan.sizes import Invalid, Sizes
from sweeper.store.errors import UserError, shown

GB = 1e9
# Beside live tensors; inferred, not measured: CUDA's context with cuBLAS, and what lies fallow
# between blocks of the allocator.
CONTEXT_GB, FRAGMENTED = 1.0, 1.08
TRIED = (2, 4, 8, 16, 32)
"""Devices, and parts of a batch, that are looked at where one is too small."""
MOST_SHAPES = 200
"""Runs of more shapes than this are not looked at: each takes a second."""


class GpuMemory(Sizes):
    """Bytes of live tensors: `resident`, and at most in `training` and in `evaluation`."""

    operation: ClassVar[str] = "memory"
    trainer: ClassVar[tuple[str, ...]] = ("devices", "num_nodes", "micro_batches")

    def gigabytes(self, configs: Sequence[Mapping[str, Any]]) -> list[float | None]:
        """What a process of each run takes; None where it is next to nothing, or unknown."""
        return [_gigabytes(answer) for answer in self.of(configs)]

    def _ask(self, configs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
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


def is_for_gpus(plan: Plan) -> bool:
    """Whether a plan is meant for GPUs, wherever it is made: bfloat16 gains nothing elsewhere."""
    return any(run.config["trainer"]["precision"] == "bf16-mixed" for run in plan.runs.values())


def predicted(process: ModelProcess, plan: Plan, limit: float | None) -> dict[str, float]:
    """The GB of GPU memory that runs of a plan take; none of them where they are of many shapes.

    Raises:
        UserError: a run takes more than `limit`.
    """
    memory = GpuMemory(process, plan.outputs / "cache" / "gpu_memory.json")
    runs = list(plan.runs.values())
    if len({memory.name(run.config) for run in runs}) > MOST_SHAPES:
        return {}
    try:
        needs = zip(runs, memory.gigabytes([run.config for run in runs]), strict=True)
        known = {run.id: need for run, need in needs if need is not None}
        if limit is not None:
            _check_fits(memory, runs, known, limit)
    finally:
        memory.save()
    return known


def _check_fits(
    memory: GpuMemory, runs: Iterable[Run], needs: Mapping[str, float], limit: float
) -> None:
    """Refuse runs of which one does not fit; what would make it fit is offered.

    Raises:
        UserError: the run that needs most, what it needs, and what it would need otherwise.
    """
    large = [run for run in runs if needs.get(run.id, 0) > limit]
    if not large:
        return
    run = max(large, key=lambda run: needs[run.id])
    found = [_offer(memory, run, key, limit) for key in ("devices", "micro_batches")]
    offers = [offer for offer in found if offer]
    label = shown(f"{run.names['experiment']}/{run.names['arm']} {run.names['label']}")
    more = f" (as do {len(large) - 1} more runs)" if len(large) > 1 else ""
    raise UserError(
        f"{label} needs {needs[run.id]:.0f} GB of GPU memory, more than "
        f"hydra.launcher.gpu_memory_gb={limit:g}{more}; "
        f"give it {' or '.join(offers) or 'a smaller model: neither devices nor parts are enough'}."
    )


def _offer(memory: GpuMemory, run: Run, key: str, limit: float) -> str:
    """The least of a key of `trainer` with which a run fits; empty if none does."""
    now = run.config["trainer"][key]
    counts = [count for count in TRIED if count > now]
    configs = []
    for count in counts:
        config = copy.deepcopy(dict(run.config))
        config["trainer"][key] = count
        configs.append(config)
    for count, need in zip(counts, memory.gigabytes(configs), strict=True):
        if need is not None and need <= limit:
            return f"trainer.{key}={count} ({need:.0f} GB)"
    return ""


def _gigabytes(answer: Mapping[str, int] | Invalid) -> float | None:
    if isinstance(answer, Invalid) or not answer:
        return None
    return CONTEXT_GB + FRAGMENTED * max(answer["training"], answer["evaluation"]) / GB
