"""Expected seconds of runs, by a rule of the device that measured runs correct."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from statistics import median
from typing import NamedTuple, Protocol

from sweeper.plan.plan import Plan, PlannedRun
from sweeper.store.errors import UserError
from sweeper.store.files import canonical
from sweeper.store.runs import RunStore, Taken


class Rule(NamedTuple):
    """The seconds that runs take on a device: beside training, and in the parts of its steps."""

    beside: float
    step: float
    layer: float  # of a step
    token: float
    head: float  # of a token in a layer: of small heads, softmax takes longer than matrices
    flop: float

    def training(self, run: PlannedRun) -> float:
        """Return the seconds that a run trains."""
        model, tokens = run.config["model"], run.size["tokens"]
        layers, heads = (model.get(key) or 0 for key in ("layers", "heads"))
        steps = run.steps * (self.step + layers * self.layer)
        of_tokens = tokens * (self.token + layers * heads * self.head)
        return steps + of_tokens + run.flops * self.flop


SINGLE = 10  # times as long take products in single precision, and twice the bytes are moved
PADDED = 8  # a head of another size is filled up to a multiple of this
# Bytes that a step moves in bfloat16, by position and layer: for each number of the residual
# stream, of a head's four tensors and of the feed-forward; by position, for each piece.
STREAM, HEADS, FEEDFORWARD, PIECES = 160, 12, 40, 6


class GpuRule(NamedTuple):
    """The cost of runs on a GPU: seconds beside training, and rates of its kernels."""

    beside: float
    layer: float  # seconds in which the kernels of a layer start, forward and backward
    products: float  # FLOPs per second of matrix products in bfloat16
    logit: float  # seconds of fused attention for a query and a key of a small head
    attention: float  # FLOPs per second of fused attention in bfloat16, for large heads
    bytes: float  # per second, to and from its memory

    def training(self, run: PlannedRun) -> float:
        """Return the seconds that a run trains.

        A step takes as long as its kernels, or as long as they need to start. Products and moved
        bytes add up, since most kernels do one or the other.
        """
        task, model, size = run.config["task"], run.config["model"], run.size
        layers, heads = (model.get(key) or 1 for key in ("layers", "heads"))
        head = size.get("head_size") or size.get("width", 0) / heads  # their mean if they differ
        filled = -(-head // PADDED) * PADDED
        shared = model.get("attention", {}).get("shared_size", 0)  # collaborative: wider queries
        queries = filled if shared == 0 else shared or heads * head
        # A product for the scores and one for the values, each once forward and twice backward.
        logits = layers * heads * task.get("sequence_length", 1)
        plain = max(size["flops_per_token"] - 12 * logits * head, 0) / self.products
        attention = logits * max(self.logit, 6 * (queries + filled) / self.attention)
        in_layer = STREAM * model.get("embedding_size", 0) + HEADS * heads * (queries + 3 * filled)
        in_layer += FEEDFORWARD * (model.get("feedforward_size") or 0)
        moved = (layers * in_layer + PIECES * task.get("vocabulary_size", 0)) / self.bytes
        position = plain + attention + moved
        if run.config["trainer"]["precision"] != "bf16-mixed":
            position = SINGLE * (plain + attention) + 2 * moved
        seconds: float = max(size["tokens"] * position, run.steps * layers * self.layer)
        return seconds


CPU = Rule(1.0, 7e-4, 1.4e-3, 1.2e-6, 1.9e-7, 1 / 4.5e10)
"""Fitted to whole demos on a Xeon and an EPYC, so that one factor corrects all tasks.

Experiments under docs/results/cpu took 0.7 to 2.1 times these seconds, 0.97 in the median.
"""
GPUS = {
    "H100": GpuRule(3.0, 3e-4, 5e14, 9e-12, 6e13, 2.1e12),
    "H200": GpuRule(3.0, 3e-4, 5e14, 9e-12, 6e13, 3e12),
}
"""By a part of its name; other GPUs are taken for the first.

Fitted to 15 shapes on one H200 (docs/performance.md). An H100 was not measured: it computes as fast
and moves as many bytes fewer as its memory is slower.
"""

OTHERS = 50  # finished runs of other plans to read, at most
NEWEST = 20  # measurements to keep of similar runs: the load of a machine changes
ENOUGH = 0.05  # of a training: a part long enough to tell how long the rest takes


class Throughput:
    """The expected times of runs in one slot of a device ("cpu" or "gpu"; `gpu` is its name).

    Measurements correct the rule of the device by a factor. Those of the most similar runs count:
    of the same run, of the same model on the same task, of the same task, or of all runs.
    """

    def __init__(self, device: str, sharing: int = 1, gpu: str = "") -> None:
        named = next((rule for name, rule in GPUS.items() if name in gpu), GPUS["H100"])
        self._rule: Rule | GpuRule = CPU if device == "cpu" else named
        self._sharing = float(sharing)  # runs that train on a device at a time
        self._trained: dict[str, dict[str, float]] = {}  # times the rule
        self._beside: dict[str, dict[str, float]] = {}  # seconds
        self._similar: dict[str, list[str]] = {}
        self.measured = False
        """True if a measured run says how fast training is."""

    def learn(
        self, run: PlannedRun, training: float, beside: float | None, share: float = 1.0
    ) -> None:
        """Take the seconds that a run trained for a share of its steps, and those beside them.

        Later measurements of a run replace earlier ones.
        """
        if run.steps and share >= ENOUGH:
            self._note(self._trained, run, training / (self._rule.training(run) * share))
            self.measured = True
        if beside is not None:
            self._note(self._beside, run, beside)

    def expected(self, run: PlannedRun) -> Taken:
        """Return the seconds that a run is expected to take."""
        factor = self._median(self._trained, run, self._sharing)
        beside = self._median(self._beside, run, self._rule.beside)
        return Taken(self._rule.training(run) * factor, beside)

    def _note(self, known: dict[str, dict[str, float]], run: PlannedRun, value: float) -> None:
        for name in self._groups(run):
            group = known.setdefault(name, {})
            group.pop(run.id, None)  # the newest stand last
            group[run.id] = value
            if len(group) > NEWEST:
                del group[next(iter(group))]

    def _median(self, known: dict[str, dict[str, float]], run: PlannedRun, default: float) -> float:
        group = next((known[name] for name in self._groups(run) if name in known), None)
        return median(group.values()) if group else default

    def _groups(self, run: PlannedRun) -> list[str]:
        """Return names of the groups of similar runs that a run belongs to, smallest first."""
        if run.id not in self._similar:
            task, precision = run.config["task"], run.config["trainer"]["precision"]
            shape, kind = [task, run.config["model"], precision], [task["name"], precision]
            self._similar[run.id] = [run.id, canonical(shape), canonical(kind), ""]
        return self._similar[run.id]


class Device(Protocol):
    """The description that a backend gives of the devices that runs train on."""

    device: str
    sharing: int
    gpu: str


def measured(plan: Plan, store: RunStore, on: Device) -> Throughput:
    """Return expected times by the finished runs of a plan, and of other plans for other tasks."""
    device = on.device
    own = list(_finished(plan.runs.values(), store, device))
    missing = {_task(run) for run in plan.runs} - {_task(run.id) for run, _, _ in own}
    ids = store.ids() if missing else []
    ids = [run for run in ids if _task(run) in missing and run not in plan.runs]
    others: list[tuple[PlannedRun, float, float | None]] = []
    for name in sorted(ids, key=lambda run: store.run(run).path.stat().st_mtime)[-OTHERS:]:
        with suppress(UserError, OSError):  # a damaged run of another plan is skipped
            record = store.run(name).record()
            other = PlannedRun(name, record["config"], record["size"], record["names"])
            others += _finished([other], store, device)
    found = Throughput(device, on.sharing, on.gpu)
    for run, training, beside in (*others, *own):
        found.learn(run, training, beside)
    return found


def _task(run_id: str) -> str:
    return run_id.partition("-")[0]


def _finished(
    runs: Iterable[PlannedRun], store: RunStore, device: str
) -> Iterator[tuple[PlannedRun, float, float | None]]:
    """Yield runs trained on a device, with their seconds in training and beside it."""
    for run in runs:
        result = store.run(run.id).result() or {}
        training = result.get("seconds")
        if training and ("max_memory_allocated" in result) == (device == "gpu"):
            yield run, training, result.get("overhead_seconds")
