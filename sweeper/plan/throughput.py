"""Expected seconds of runs: their FLOPs, times the seconds per FLOP of the most similar runs."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from statistics import median
from typing import Protocol

from sweeper.plan.plan import Plan
from sweeper.store.errors import UserError
from sweeper.store.files import canonical
from sweeper.store.records import Record
from sweeper.store.runs import RunStore, Taken

# Assumed for the start and the evaluation of a run, until one has finished.
BESIDE_S = 1.0
OTHERS = 50  # finished runs of other plans to read, at most
NEWEST = 20  # measurements to keep of similar runs: the load of a machine changes
ENOUGH = 0.05  # of a training: a part long enough to tell how long the rest takes


class Throughput:
    """The expected times of runs on one kind of device.

    The median of the most similar measured runs counts: of the same run, of the same model on the
    same task, of the same task, or of all runs.

    Args:
        assumed: seconds per FLOP before anything is measured; 0 if they are unknown.
    """

    def __init__(self, assumed: float = 0.0) -> None:
        self._assumed = assumed
        self._per_flop: dict[str, dict[str, float]] = {}  # seconds
        self._beside: dict[str, dict[str, float]] = {}  # seconds
        self._similar: dict[str, list[str]] = {}

    @property
    def measured(self) -> bool:
        """Return whether a measured run says how fast training is."""
        return bool(self._per_flop)

    def learn(
        self, run: Record, training: float, beside: float | None, share: float = 1.0
    ) -> bool:
        """Take the seconds that a run trained for a share of its steps, and those beside them.

        Later measurements of a run replace earlier ones. Return `measured`.
        """
        if run.flops and share >= ENOUGH:
            self._note(self._per_flop, run, training / (run.flops * share))
        if beside is not None:
            self._note(self._beside, run, beside)
        return self.measured

    def expected(self, run: Record) -> Taken:
        """Return the seconds that a run is expected to take; 0 of training if that is unknown."""
        per_flop = self._median(self._per_flop, run, self._assumed)
        return Taken(run.flops * per_flop, self._median(self._beside, run, BESIDE_S))

    def estimate(self, runs: Iterable[Record]) -> dict[str, float]:
        """Return the expected seconds of training by run; empty before anything is measured."""
        return {run.id: self.expected(run).training for run in runs if self.measured}

    def _note(
        self, known: dict[str, dict[str, float]], run: Record, value: float
    ) -> None:
        for name in self._groups(run):
            group = known.setdefault(name, {})
            group.pop(run.id, None)  # the newest stand last
            group[run.id] = value
            if len(group) > NEWEST:
                del group[next(iter(group))]

    def _median(
        self, known: dict[str, dict[str, float]], run: Record, default: float
    ) -> float:
        group = next((known[name] for name in self._groups(run) if name in known), None)
        return median(group.values()) if group else default

    def _groups(self, run: Record) -> list[str]:
        """Return names of the groups of similar runs that a run belongs to, smallest first."""
        if run.id not in self._similar:
            task, precision = run.config["task"], run.config["trainer"]["precision"]
            shape, kind = (
                [task, run.config["model"], precision],
                [task["name"], precision],
            )
            self._similar[run.id] = [run.id, canonical(shape), canonical(kind), ""]
        return self._similar[run.id]


class Backend(Protocol):
    """The part of a backend that says what runs train on: "cpu" or "gpu"."""

    device: str


def device_of(plan: Plan, backend: Backend) -> str:
    """Return "gpu" if a run of the plan asks for one, else the device of the backend."""
    asked = {run.config["trainer"]["accelerator"] for run in plan.runs.values()}
    return "gpu" if "gpu" in asked else backend.device


def measured(plan: Plan, store: RunStore, backend: Backend) -> Throughput:
    """Return expected times by the finished runs of a plan, and of other plans for other tasks."""
    device = device_of(plan, backend)
    own = list(_finished(plan.runs.values(), store, device))
    missing = {_task(run) for run in plan.runs} - {_task(run.id) for run, _, _ in own}
    ids = store.ids() if missing else []
    ids = [run for run in ids if _task(run) in missing and run not in plan.runs]
    others: list[tuple[Record, float, float | None]] = []
    for name in sorted(ids, key=lambda run: store.run(run).path.stat().st_mtime)[
        -OTHERS:
    ]:
        with suppress(UserError, OSError):  # a damaged run of another plan is skipped
            others += _finished([store.run(name).record()], store, device)
    found = Throughput()
    for run, training, beside in (*others, *own):
        found.learn(run, training, beside)
    return found


def _task(run_id: str) -> str:
    return run_id.partition("-")[0]


def _finished(
    runs: Iterable[Record], store: RunStore, device: str
) -> Iterator[tuple[Record, float, float | None]]:
    """Yield runs trained on a device, with their seconds in training and beside it."""
    for run in runs:
        result = store.run(run.id).result() or {}
        training = result.get("seconds")
        if training and ("max_memory_allocated" in result) == (device == "gpu"):
            yield run, training, result.get("overhead_seconds")
