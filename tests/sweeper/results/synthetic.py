"""Synthetic sweeps with a known truth, as the sweeper leaves them on disk."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from sweeper.results.collect import collect
from sweeper.results.table import Table
from sweeper.store.plans import write_plan
from sweeper.store.runs import RunStore

METRIC = "test/perplexity"
VOCABULARY, LAYERS, FEEDFORWARD = 4099, 3, 211


@dataclass(frozen=True)
class Model:
    """A model of the synthetic sweeps; what its truth is a function of."""

    embedding_size: int
    heads: int
    head_size: int

    @property
    def size(self) -> dict[str, int]:
        d, width = self.embedding_size, self.heads * self.head_size
        layer = 4 * d * width + 2 * d * FEEDFORWARD + FEEDFORWARD + 5 * d
        embedding, rest = VOCABULARY * d, LAYERS * layer + 2 * d
        return {
            "params_total": embedding + rest,
            "params_embedding": embedding,
            "params_non_embedding": rest,
            "flops_per_token": 6 * (embedding + rest) + 12 * LAYERS * 257 * width,
            "head_size": self.head_size,
            "width": width,
        }


Truth = Callable[[Model], float]


def paper(model: Model) -> float:
    """A world in which the paper is right: small heads hurt, and every parameter counts."""
    size = 60 * (model.size["params_total"] / 1e6) ** -0.35
    return float(size * (1 + 0.012 * max(0.0, math.log2(32 / model.head_size)) ** 2))


def flat(model: Model) -> float:
    """A world in which nothing matters."""
    return 43.0


def contrary(model: Model) -> float:
    """A world in which heads of any size help the standard model, and hurt the fixed one."""
    if model.head_size == 32 and model.embedding_size == 64:
        return 50.0 + 0.5 * model.heads
    return 40.0 - model.embedding_size / 32 - math.log2(model.heads)


LABELS = {
    "standard": "head size d/h",
    "fixed": "head size fixed",
    "matched": "head size fixed, heads matched to d/h",
}


@dataclass
class Sweep:
    """A sweep of one experiment, to be filled point by point and written to disk."""

    name: str = "fig1"
    title: str = "Perplexity, standard against fixed head size"
    metric: str = METRIC
    figure: str = "fig1"
    x: str = "params_total"
    claims: Sequence[str] = (
        "standard_worsens_beyond",
        "fixed_keeps_improving",
        "small_beats_large",
    )
    margin: Mapping[str, Any] = field(default_factory=dict)
    error: float = 0.05
    labels: Mapping[str, str] = field(default_factory=LABELS.copy)
    points: list[dict[str, Any]] = field(default_factory=list)
    records: dict[str, dict[str, Any]] = field(default_factory=dict)
    results: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(
        self,
        arm: str,
        values: Mapping[str, Any],
        model: Model,
        measured: Mapping[int, float | None],
        matched: Mapping[str, Any] | None = None,
    ) -> None:
        """A point with the metric of each seed; None for a seed whose run is not done."""
        sizes = {
            "layers": values.get("model.layers", LAYERS),
            "embedding_size": model.embedding_size,
            "heads": model.heads,
            "head_size": None,
            "feedforward_size": values.get("model.feedforward_size", FEEDFORWARD),
            "attention": {"name": values.get("model.attention.name", "multi_head")},
        }
        point = {"experiment": self.name, "arm": arm, "values": values, "matched": matched}
        names = {"experiment": self.name, "arm": arm, "label": arm}
        for seed, value in measured.items():
            run = f"lm1b-d{model.embedding_size}-h{model.heads}x{model.head_size}-s{seed}"
            config = {"seed": seed, "model": sizes}
            if self.records.get(run, {"config": config})["config"] != config:
                run += f"-{len(self.records)}"
            self.records[run] = {"id": run, "config": config, "size": model.size, "names": names}
            if value is not None:
                self.results[run] = {
                    "metrics": {self.metric: value, "test/loss": math.log(abs(value) + 1)},
                    "steps": 97,
                    "tokens_seen": 97 * 1024,
                    "seconds": 12.5,
                    "tokens_per_second": 7946.2,
                    "device": "a CPU, 2 threads",
                }
            self.points.append({**point, "values": dict(values), "seed": seed, "run": run})

    @property
    def plan(self) -> dict[str, Any]:
        """The plan, as the planner writes it."""
        told = ("title", "metric", "x", "figure", "claims", "margin", "error")
        arms = {arm: {"label": label} for arm, label in self.labels.items()}
        return {
            "command": ["python", "sweep.py", "-m", f"experiment={self.name}"],
            "scale": "demo",
            "experiments": {self.name: {**{key: getattr(self, key) for key in told}, "arms": arms}},
            "points": self.points,
            "runs": {
                id: {"size": record["size"], "steps": 97, "batch_tokens": 1024}
                for id, record in self.records.items()
            },
        }

    def write(self, outputs: Path) -> Path:
        """The plan and the records on disk, through the store."""
        write_plan(outputs, self.plan)
        store = RunStore(outputs)
        for id, record in self.records.items():
            run = store.freeze(record)
            if id in self.results:
                attempt = run.claim({})
                run.publish_result(attempt, self.results[id])
                attempt.finish("done")
        return outputs

    def table(self, outputs: Path) -> Table:
        """The table of the sweep, by way of the disk."""
        [table] = collect(self.write(outputs), [self.name])
        return table


@dataclass(frozen=True)
class Grid:
    """The sizes of a Figure 1."""

    embeddings: Sequence[int] = (64, 96, 128)
    standard_heads: Sequence[int] = (2, 4, 8, 16)
    fixed_heads: Sequence[int] = (2, 4, 8, 16)
    small: int = 64
    head_size: int = 32


FEW = Grid((64, 96), (4,), (4,))
PAPER = Grid(
    (256, 320, 384, 448, 512), (4, 8, 16, 32, 64), (4, 8, 12, 16, 24, 32, 48, 64, 70), small=256
)


def figure1(
    truth: Truth = paper,
    grid: Grid = Grid(),
    *,
    seeds: int = 3,
    noise: float = 0.01,
    done: Callable[[str, Model, int], bool] = lambda arm, model, seed: True,
) -> Sweep:
    """Figure 1 with a known truth and relative `noise` between seeds; same run, same noise."""
    sweep = Sweep()

    def add(arm: str, values: dict[str, int], model: Model, match: Any = None) -> None:
        measured = {
            seed: truth(model) * (1 + random.Random(f"{model}{seed}").gauss(0, noise))
            if done(arm, model, seed)
            else None
            for seed in range(seeds)
        }
        sweep.add(arm, values, model, measured, match)

    for d, heads in product(grid.embeddings, grid.standard_heads):
        if d % heads == 0:
            values = {"model.embedding_size": d, "model.heads": heads}
            add("standard", values, Model(d, heads, d // heads))
    for heads in grid.fixed_heads:
        add("fixed", {"model.heads": heads}, Model(grid.small, heads, grid.head_size))
    for d in grid.embeddings:
        if d > grid.small:
            model, match = matched_to(d, grid)
            add("matched", {"model.heads": model.heads}, model, match)
    return sweep


def matched_to(d: int, grid: Grid) -> tuple[Model, dict[str, Any]]:
    """The small model nearest in total parameters to a standard model of embedding size `d`."""
    heads = grid.standard_heads[len(grid.standard_heads) // 2]
    target = Model(d, heads, d // heads).size["params_total"]
    candidates = [Model(grid.small, h, grid.head_size) for h in range(1, 4001)]
    model = min(candidates, key=lambda one: abs(one.size["params_total"] - target))
    achieved = model.size["params_total"]
    return model, {
        "to": f"standard embedding_size={d} heads={heads}",
        "count": "params_total",
        "target": target,
        "achieved": achieved,
        "error": achieved / target - 1,
    }


def by_hand(axes: Mapping[str, Sequence[Any]]) -> Sweep:
    """A grid as it is typed on a command line."""
    labels, x = {"grid": " x ".join(axes)}, next(iter(axes))
    sweep = Sweep(name="grid", title="lm1b", figure="curves", x=x, claims=(), labels=labels)
    for index, values in enumerate(product(*axes.values())):
        point = dict(zip(axes, values, strict=True))
        heads, size = point.get("model.heads", 2 + index), point.get("model.head_size") or 32
        sweep.add("grid", point, Model(64, heads, size), {0: 43.0 - index, 1: 42.5})
    return sweep


Knee = Callable[[int], int]


def theorem1(
    bidirectional: Knee = lambda n: n - 1, causal: Knee = lambda n: n // 2, *, seeds: int = 2
) -> Sweep:
    """Errors that halve from one head size to the next, and collapse at the knees given."""
    sweep = Sweep(
        name="theorem1",
        title="The head size that a context takes",
        metric="test/context_error",
        figure="theorem1",
        x="model.head_size",
        claims=("bidirectional_takes_n_minus_1", "causal_takes_half"),
        labels={"bidirectional": "every key is seen", "causal": "causal mask"},
    )
    # The mask and the length are no part of a synthetic run's name, so heads are.
    for heads, arm, knee in ((2, "bidirectional", bidirectional), (1, "causal", causal)):
        for length in (5, 7):
            for size in range(1, length + 1):
                error = 0.5**size * (1e-7 if size >= knee(length) else 1.0)
                draw = random.Random(f"{arm}{length}{size}")
                measured = {seed: error * 10 ** draw.gauss(0, 0.1) for seed in range(seeds)}
                values = {"task.sequence_length": length, "model.head_size": size}
                sweep.add(arm, values, Model(length, heads, size), measured)
    return sweep


FINETUNE = {"squad": ["test/f1", "test/exact_match"], "mnli": ["test/accuracy"]}
BASELINES = {"test/majority_accuracy": 0.353, "test/bag_of_words_accuracy": 0.381}
MODELS = {heads: Model(64, heads, 16) for heads in (8, 12, 32)}
Done = Callable[[str, int, int], bool]


def score(metric: str, model: Model, seed: int) -> float:
    """A score that grows with the heads and differs between seeds; an accuracy is a fraction."""
    percent = {"test/f1": 70.0, "test/exact_match": 60.0, "test/accuracy": 50.0}[metric]
    percent += model.heads / 4 + (0.6, -0.2, 0.1, 0.3, -0.5)[seed]
    return percent / 100 if metric.endswith("accuracy") else percent


def described(name: str) -> dict[str, Any]:
    """What the plan says of an experiment that the project ships."""
    conf = Path(__file__).parents[3] / "conf" / "experiment" / f"{name}.yaml"
    whole: Any = OmegaConf.to_container(OmegaConf.load(conf), resolve=False)
    about = whole["experiment"]
    keys = {"title", "metric", "x", "figure", "finetune"} & about.keys()
    paper = {str(x): printed for x, printed in about.get("paper", {}).items()}
    arms = {arm: {"label": entry["label"]} for arm, entry in about["arms"].items()}
    chosen = {key: about[key] for key in keys}
    return {"x": "params_total", **chosen, "claims": [], "paper": paper, "arms": arms}


@dataclass(frozen=True)
class Finetuned:
    """A sweep of a shipped experiment over `MODELS` that is still to be written.

    The seeds take turns to fine-tune so many pre-trainings.
    """

    name: str = "table2a"
    scale: str = "demo"
    seeds: int = 2
    about: Mapping[str, Any] = field(default_factory=dict)
    done: Done = lambda task, heads, seed: True
    pretrainings: int = 1

    @property
    def labels(self) -> dict[str, str]:
        """The words for each arm."""
        arms = {**described(self.name), **self.about}["arms"]
        return {arm: entry["label"] for arm, entry in arms.items()}

    def table(self, outputs: Path) -> Table:
        """The table of the sweep, by way of the disk."""
        experiment = {
            **described(self.name),
            "scale": self.scale,
            "text": "made up",
            **self.about,
        }
        points: list[dict[str, Any]] = []
        runs: dict[str, Any] = {}
        store = RunStore(outputs)

        def add(task: str, arm: str, model: Model, seed: int, parent: str | None = None) -> str:
            id, names = (
                f"{task}-{arm}-h{model.heads}-s{seed}",
                {"experiment": self.name, "arm": arm},
            )
            total = model.size["params_total"] - (0 if parent is None else 4099)
            size = {**model.size, "params_total": total}
            sizes = {"heads": model.heads, "head_size": None, "embedding_size": 64}
            config = {"seed": seed, "task": {"name": task}, "model": sizes, "parent": parent}
            record = {"id": id, "config": config, "size": size, "names": {**names, "label": arm}}
            run = store.freeze(record)
            if self.done(task, model.heads, seed):
                metrics = {metric: score(metric, model, seed) for metric in FINETUNE.get(task, [])}
                metrics |= BASELINES if task == "mnli" else {"test/loss": 3.7}
                attempt = run.claim({})
                run.publish_result(attempt, {"metrics": metrics, "steps": 97})
                attempt.finish("done")
            values = {"model.heads": model.heads}
            point = {"task": task, "seed": seed, "values": values, "run": id, "matched": None}
            points.append({**names, **point})
            runs[id] = {"size": size, "parent": parent}
            return id

        for place, arm in enumerate(experiment["arms"]):
            for heads in MODELS:
                model = Model(64 + 32 * place, heads, 16)
                parents = [add("pretraining", arm, model, n) for n in range(self.pretrainings)]
                for task in FINETUNE:
                    for seed in range(self.seeds):
                        add(task, arm, model, seed, parents[seed % self.pretrainings])
        plan = {"command": ["sweep.py"], "scale": self.scale, "points": points, "runs": runs}
        write_plan(outputs, {**plan, "experiments": {self.name: experiment}})
        [table] = collect(outputs, [self.name])
        return table


def finetuned(outputs: Path, name: str = "table2a", **given: Any) -> Table:
    """The table of such a sweep."""
    return Finetuned(name, **given).table(outputs)
