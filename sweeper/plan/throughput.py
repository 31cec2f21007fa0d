"""Estimate how long a run takes, from its FLOPs and from the measured times of similar runs."""

from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from statistics import median

from sweeper.plan.plan import Plan
from sweeper.store.errors import UserError
from sweeper.store.files import canonical
from sweeper.store.records import Record
from sweeper.store.runs import RunStore, Taken

# The seconds that the start and the evaluation of a run are assumed to take until a similar run has
# been measured.
OVERHEAD_S = 1.0
OTHERS = 50  # read at most this many finished runs of other plans
# Keep this many measurements for each group of similar runs. Drop older ones, since the load of a
# machine changes.
NEWEST = 20
# Use the speed of a run only if it has trained at least this share of its steps.
ENOUGH = 0.05
# Do not estimate a run from runs of other tasks that have less than this share of the run's FLOPs,
# since tiny models can take 100 times as long for each FLOP.
COMPARABLE = 1 / 30

Group = dict[str, tuple[int, float]]
"""Measurements of similar runs, oldest first. Each run id maps to (FLOPs, measured value)."""


class Throughput:
    """An estimator of how long runs take on one kind of device, based on measured runs.

    Each estimate is a median over a group of measured runs. The estimator uses the first of these
    groups that has a measured run:

    1. the run itself
    2. runs with the same model and task
    3. runs with the same task
    4. all runs with comparable FLOPs

    Args:
        assumed: the seconds per FLOP to assume before anything is measured; 0 if unknown.
    """

    def __init__(self, assumed: float = 0.0) -> None:
        self._assumed = assumed
        # The measured values are the seconds per FLOP of training, and the seconds of overhead
        # (start and evaluation). Both dicts are keyed by the name of a group of similar runs.
        self._per_flop: dict[str, Group] = defaultdict(dict)
        self._overhead: dict[str, Group] = defaultdict(dict)
        self._similar: dict[str, list[str]] = {}  # maps a run id to the run's groups

    def knows(self, run: Record) -> bool:
        """Return whether the training time of a run can be estimated."""
        return not run.flops or self.expected(run).training > 0

    def learn(
        self, run: Record, training: float, overhead: float | None, share: float = 1.0
    ) -> None:
        """Record how long a run took. This replaces an earlier measurement of the same run.

        Args:
            run: the run.
            training: the seconds of training so far.
            overhead: the seconds that start and evaluation took; None if unknown.
            share: the share of its steps that the run has trained, from 0 to 1.
        """
        if run.flops and share >= ENOUGH:
            self._note(self._per_flop, run, training / (run.flops * share))
        if overhead is not None:
            self._note(self._overhead, run, overhead)

    def expected(self, run: Record) -> Taken:
        """Return the expected seconds of a run. If its speed is unknown, `training` is 0."""
        per_flop = self._median(self._per_flop, run, self._assumed)
        return Taken(
            run.flops * per_flop, self._median(self._overhead, run, OVERHEAD_S)
        )

    def estimate(self, runs: Iterable[Record]) -> dict[str, float]:
        """Return the expected seconds of training, by run id. Leave out runs of unknown speed."""
        return {run.id: self.expected(run).training for run in runs if self.knows(run)}

    def _note(self, known: dict[str, Group], run: Record, value: float) -> None:
        for name in self._groups(run):
            group = known[name]
            # Remove the old value first, so that the dict stays sorted from the oldest value to the
            # newest.
            group.pop(run.id, None)
            group[run.id] = (run.flops, value)
            if len(group) > NEWEST:
                del group[next(iter(group))]

    def _median(self, known: dict[str, Group], run: Record, default: float) -> float:
        *similar, everything = self._groups(run)
        for name in similar:
            if group := known[name]:
                return median(value for _, value in group.values())
        least = COMPARABLE * run.flops
        others = known[everything].values()
        comparable = [value for flops, value in others if flops >= least]
        return median(comparable) if comparable else default

    def _groups(self, run: Record) -> list[str]:
        """Return the names of the groups that a run belongs to, the narrowest first."""
        if run.id not in self._similar:
            task, precision = run.config["task"], run.config["trainer"]["precision"]
            same_model = canonical([task, run.config["model"], precision])
            same_task = canonical([task["name"], precision])
            all_runs = ""
            self._similar[run.id] = [run.id, same_model, same_task, all_runs]
        return self._similar[run.id]


def device_of(plan: Plan, default: str) -> str:
    """Return "gpu" if a run of the plan requires a GPU, else `default`, the backend's device."""
    required = {run.config["trainer"]["accelerator"] for run in plan.runs.values()}
    return "gpu" if "gpu" in required else default


def measured(plan: Plan, store: RunStore, default: str) -> Throughput:
    """Return a Throughput that has learned from finished runs of a plan.

    If a task has no finished run in the plan, also learn from the newest finished runs of this task
    in other plans.

    Args:
        plan: the plan.
        store: the runs on disk.
        default: the device of the backend, "cpu" or "gpu". Runs on other devices are ignored.
    """
    device = device_of(plan, default)
    found = Throughput()
    own = [run.id for run in plan.runs.values() if _learn(found, run, store, device)]
    missing = {*map(_task, plan.runs)} - {*map(_task, own)}
    ids = store.ids() if missing else []
    ids = [run for run in ids if _task(run) in missing and run not in plan.runs]
    ids.sort(key=lambda run: store.run(run).path.stat().st_mtime)
    for run_id in ids[-OTHERS:]:
        with suppress(UserError, OSError):  # skip a damaged run of another plan
            _learn(found, store.run(run_id).record(), store, device)
    return found


def _task(run_id: str) -> str:
    return run_id.partition("-")[0]


def _learn(found: Throughput, run: Record, store: RunStore, device: str) -> bool:
    """Learn how long a run took. Return False if it has not finished on `device`."""
    result = store.run(run.id).result()
    if result is None or not result.seconds:
        return False
    on_gpu = result.max_memory_allocated is not None
    if on_gpu != (device == "gpu"):
        return False
    found.learn(run, result.seconds, result.overhead_seconds)
    return True
