"""How long runs take: what is assumed of a device, corrected by the runs that were measured.

    seconds of a run = what it takes beside its training + steps, each of a floor and its operations

What measured runs correct is by how much the whole of a training is off; the likest of them decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from statistics import median
from typing import Any

from sweeper.plan.plan import Plan, Run
from sweeper.store.errors import UserError
from sweeper.store.files import canonical
from sweeper.store.runs import RunStore, Taken

BESIDE = 50  # runs of other plans that are asked what runs take, at most
NEWEST = 9  # measurements that count, of those of one likeness: what else a machine does changes
FAR = 0.05  # of a training: a part of it that is long enough to tell how long the rest takes

LIKENESS: tuple[Callable[[Run], object], ...] = (
    lambda run: run.id,
    # Model and batches: what makes a step of one run like that of another.
    lambda run: canonical([run.config["task"], run.config["model"], _precision(run)]),
    lambda run: canonical([run.config["task"], _precision(run)]),
    lambda run: run.config["task"]["name"],
    lambda run: None,
)
"""Runs of one value are alike, by the first of these that any measured run shares."""


def _on_cpu(run: Run) -> float:
    """Of one core with AVX-512: within a quarter for every step of the demo and of Theorem 1.

    A step takes what its calls do, most of them a layer's, then its operations, and then what is
    done with each entry of each head's attention map, which few operations are counted for.
    """
    layers, heads = _layers(run), run.config["model"].get("heads") or 0
    maps: int = layers * heads * run.tokens * (run.config["task"].get("sequence_length") or 0)
    return run.steps * (3.3e-4 + 1.1e-3 * layers) + run.flops / 4.7e10 + maps * 4.5e-9


def launching(run: Run) -> float:
    """Seconds that a host takes to launch a run's steps: 1.25 ms a layer, by a traced step."""
    return run.steps * 1.25e-3 * _layers(run)


def computing(run: Run) -> float:
    """Seconds that one H200 computes a run's steps, the faster the wider the model is.

    By assumed rates of the kernels of a traced step; never measured.
    """
    width: int = run.config["model"].get("embedding_size") or 256
    return run.flops / (1.7e14 * math.pow(width / 256, 0.4))


def _on_gpu(run: Run) -> float:
    """Of one H200, whose host launches while it computes."""
    return max(launching(run), computing(run))


ASSUMED: Mapping[str, tuple[Callable[[Run], float], float]] = {
    "cpu": (_on_cpu, 0.2),
    "gpu": (_on_gpu, 5.0),
}
"""Of a device: seconds of a run's training, and what the start and end of its process take."""
EVALUATED = 30  # steps that take as long as what is evaluated


class Throughput:
    """How long a run takes in one slot of a device ("cpu" or "gpu"), by what was measured there."""

    def __init__(self, device: str, sharing: int = 1) -> None:
        self._trained, self._started = ASSUMED[device]
        self._sharing = sharing  # runs that train on a device at a time
        self._measured: dict[str, dict[object, dict[str, float]]] = {"training": {}, "beside": {}}
        self._medians: dict[tuple[str, object], float] = {}
        self._names: dict[str, list[object]] = {}

    @property
    def measured(self) -> bool:
        """Whether any measured run says something."""
        return bool(self._measured["training"])

    def learn(self, run: Run, training: float, beside: float | None, share: float = 1.0) -> None:
        """Take what a run took for so large a share of its steps, and beside them if that is known.

        What is learned of a run replaces what was learned of it before.
        """
        assumed = self._assumed(run)
        if run.steps and share >= FAR:  # a run of no steps says nothing of others
            self._note("training", run, training / (assumed.training * share))
        if beside is not None:
            self._note("beside", run, beside / assumed.beside)

    def expected(self, run: Run) -> Taken:
        """Return how long a run is thought to take."""
        assumed = self._assumed(run)
        return Taken(
            assumed.training * self._likest("training", run),
            assumed.beside * self._likest("beside", run),
        )

    def _assumed(self, run: Run) -> Taken:
        training = self._trained(run) * self._sharing
        return Taken(training, self._started + EVALUATED * training / max(1, run.steps))

    def _note(self, what: str, run: Run, value: float) -> None:
        for name in self._likenesses(run):
            alike = self._measured[what].setdefault(name, {})
            alike.pop(run.id, None)  # the newest stand last
            alike[run.id] = value
            self._medians.pop((what, name), None)

    def _likest(self, what: str, run: Run) -> float:
        """How many times what is assumed the likest runs took."""
        for name in self._likenesses(run):
            if alike := self._measured[what].get(name):
                if (what, name) not in self._medians:
                    self._medians[what, name] = median(list(alike.values())[-NEWEST:])
                return self._medians[what, name]
        return 1.0

    def _likenesses(self, run: Run) -> list[object]:
        if run.id not in self._names:
            self._names[run.id] = [(level, of(run)) for level, of in enumerate(LIKENESS)]
        return self._names[run.id]


def _layers(run: Run) -> int:
    layers: int = run.config["model"].get("layers") or 0
    return layers


def _precision(run: Run) -> Any:
    return run.config["trainer"]["precision"]


def measured(plan: Plan, store: RunStore, device: str, sharing: int = 1) -> Throughput:
    """What finished runs say of a device: those of a plan, and of others where it has none."""
    found = Throughput(device, sharing)
    own = list(_trained(plan.runs.values(), store, device))
    known = {_task(run.id) for run, _ in own}
    beside = _others(plan, store, {_task(run) for run in plan.runs} - known)
    for run, took in (*_trained(beside, store, device), *own):
        found.learn(run, *took)
    return found


def _trained(
    runs: Iterable[Run], store: RunStore, device: str
) -> Iterator[tuple[Run, tuple[float, float | None]]]:
    """Those that were trained on a device, and what each took: steps, and what was beside them."""
    for run in runs:
        result = store.run(run.id).result() or {}
        training = result.get("seconds")
        if training and ("max_memory_allocated" in result) == (device == "gpu"):
            yield run, (training, result.get("overhead_seconds"))


def _others(plan: Plan, store: RunStore, tasks: Collection[str]) -> Iterator[Run]:
    """Runs of some tasks that stand beside a plan's, oldest first: the newest, if many do."""
    ids = [run for run in store.ids() if _task(run) in tasks and run not in plan.runs]
    for run in sorted(ids, key=lambda run: store.run(run).path.stat().st_mtime)[-BESIDE:]:
        with suppress(UserError, OSError):  # what is damaged there says nothing
            record = store.run(run).record()
            store.run(run).result()
            yield Run(run, record["config"], record["size"], record["names"])


def _task(run: str) -> str:
    return run.partition("-")[0]
