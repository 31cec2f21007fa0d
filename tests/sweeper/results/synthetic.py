"""Synthetic sweeps with known results, written to disk as the sweeper writes them.

They are Figure 1, Theorem 1, grids from the command line, single arms and fine-tuned models.
"""

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from omegaconf import OmegaConf

from sweeper.results.collect import collect
from sweeper.store.plans import write_plan
from sweeper.store.records import Record
from sweeper.store.runs import RunStore
from tests.sweeper.conftest import finish

METRIC = "test/perplexity"
VOCABULARY, LAYERS, FEEDFORWARD = 4099, 3, 211


@dataclass(frozen=True)
class Model:
    """The sizes of a synthetic model, which determine its metric."""

    embedding_size: int
    heads: int
    head_size: int

    @property
    def size(self):
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


def paper(model):
    """Return a perplexity as the paper predicts: small heads hurt, and every parameter helps."""
    size = 60 * (model.size["params_total"] / 1e6) ** -0.35
    return float(size * (1 + 0.012 * max(0.0, math.log2(32 / model.head_size)) ** 2))


def flat(model):
    """Return the same perplexity for every model."""
    return 43.0


@dataclass
class Sweep:
    """A sweep of one experiment. Tests add its points and write it to disk."""

    name: str = "fig1"
    title: str = "Perplexity, standard against fixed head size"
    metric: str = METRIC
    figure: str = "fig1"
    x: str = "params_total"
    scale: str = "demo"
    claims: Sequence[str] = ()
    error: float = 0.05
    margin: dict = field(default_factory=dict)
    labels: dict = field(default_factory=dict)
    about: dict = field(default_factory=dict)
    points: list = field(default_factory=list)
    records: dict = field(default_factory=dict)
    results: dict = field(default_factory=dict)
    attempts: dict = field(default_factory=dict)

    def add(
        self,
        arm,
        model,
        measured,
        values=None,
        matched=None,
        *,
        task="lm1b",
        parent=None,
    ):
        """Add a point. By default, it varies the heads.

        Args:
            arm, model: its arm and its model.
            measured: for each seed, the metric, or all metrics by name, or None for a run that is
                not done. The seeds of a sequence are 0, 1, 2 and so on.
            values, matched, task, parent: what the plan says of the point and of its runs.
        """
        if not isinstance(measured, Mapping):
            measured = dict(enumerate(measured))
        if values is None:
            values = {"model.heads": model.heads}
        sizes = {
            "layers": LAYERS,
            "embedding_size": model.embedding_size,
            "heads": model.heads,
            "head_size": None,
            "feedforward_size": values.get("model.feedforward_size", FEEDFORWARD),
            "attention": {"name": values.get("model.attention.name", "multi_head")},
        }
        of_run = {
            "model": {"name": "encoder", **sizes},
            "task": {"name": task},
            "optimizer": {},
            "parent": parent,
        }
        name = f"{task}-d{model.embedding_size}-h{model.heads}x{model.head_size}"
        for seed, value in measured.items():
            config, run = {"seed": seed, **of_run}, f"{name}-s{seed}"
            if run in self.records and self.records[run].config != config:
                run += f"-{len(self.records)}"
            names = {"experiment": self.name, "arm": arm}
            point = {**names, "values": dict(values), "matched": matched, "task": task}
            self.points.append({**point, "seed": seed, "run": run})
            self.records[run] = Record(run, config, model.size, names | {"label": arm})
            if value is not None:
                self.results[run] = self._result(value)

    def _result(self, value):
        """Return the result of a run. `value` is its metric, or all its metrics by name."""
        if not isinstance(value, Mapping):
            value = {self.metric: value, "test/loss": math.log(abs(value) + 1)}
        return {
            "metrics": value,
            "steps": 97,
            "tokens_seen": 97 * 1024,
            "seconds": 12.5,
            "tokens_per_second": 7946.2,
            "device": "a CPU, 2 threads",
        }

    @property
    def plan(self):
        """Return the plan, as the planner writes it."""
        told = "title metric x figure scale claims margin error".split()
        arms = [*self.labels, *(point["arm"] for point in self.points)]
        labels = {arm: {"label": self.labels.get(arm, arm)} for arm in arms}
        about = {key: getattr(self, key) for key in told}
        trained = {"steps": 97, "batch_tokens": 1024}
        return {
            "command": ["python", "sweep.py", "-m", f"experiment={self.name}"],
            "scale": self.scale,
            "experiments": {self.name: {**about, "arms": labels, **self.about}},
            "points": self.points,
            "runs": {
                run: {"size": record.size, "parent": record.parent, **trained}
                for run, record in self.records.items()
            },
        }

    def write(self, outputs):
        """Write the plan and the records with the store. Most results need no attempt."""
        write_plan(outputs, self.plan)
        store = RunStore(outputs)
        for id, record in self.records.items():
            run, result = store.freeze(record), self.results.get(id)
            if result and id in self.attempts:
                finish(run, result, **self.attempts[id])
            elif result:
                run.publish_result(run.attempt(1), result)
        return outputs

    def table(self, outputs=None):
        """Return the table of the sweep. If `outputs` is set, the sweep stays there on disk."""
        with TemporaryDirectory() as folder:
            [table] = collect(self.write(outputs or Path(folder)), [self.name])
        return table


def edited(table, **cells):
    """Return the table with changed cells. A function computes the cell from its row."""
    rows = [
        row | {k: v(row) if callable(v) else v for k, v in cells.items()}
        for row in table.rows
    ]
    return replace(table, rows=rows)


@dataclass(frozen=True)
class Grid:
    """The sizes of a Figure 1."""

    embeddings: Sequence[int] = (64, 96, 128)
    standard_heads: Sequence[int] = (2, 4, 8, 16)
    fixed_heads: Sequence[int] = (2, 4, 8, 16)
    small: int = 64
    head_size: int = 32


PAPER = Grid(
    (256, 320, 384, 448, 512),
    (4, 8, 16, 32, 64),
    (4, 8, 12, 16, 24, 32, 48, 64, 70),
    small=256,
)


LABELS = {
    "standard": "head size d/h",
    "fixed": "head size fixed",
    "matched": "head size fixed, heads matched to d/h",
}
CLAIMS = ("standard_worsens_beyond", "fixed_keeps_improving", "small_beats_large")


def margin(size, metric=METRIC):
    """Return the margin of an experiment whose differences below this size do not matter."""
    return {metric: {"size": size, "reason": "No one would mind."}}


def match(to, count="params_total", error=0.0):
    """Return what a plan says of a point that is matched to another point or number."""
    return {"to": to, "count": count, "error": error}


def figure1(
    truth=paper,
    grid=Grid(),
    *,
    seeds=3,
    noise=0.01,
    done=lambda arm, model, seed: True,
    **about,
):
    """Return a Figure 1 with known results. `noise` is relative, and depends only on the run."""
    sweep = Sweep(**{"labels": LABELS, "claims": CLAIMS, **about})

    def add(arm, model, match=None, values=None):
        measured = {
            seed: truth(model) * (1 + random.Random(f"{model}{seed}").gauss(0, noise))
            if done(arm, model, seed)
            else None
            for seed in range(seeds)
        }
        sweep.add(arm, model, measured, values, match)

    for d, heads in product(grid.embeddings, grid.standard_heads):
        if d % heads == 0:
            values = {"model.embedding_size": d, "model.heads": heads}
            add("standard", Model(d, heads, d // heads), values=values)
    for heads in grid.fixed_heads:
        add("fixed", Model(grid.small, heads, grid.head_size))
    for d in grid.embeddings:
        if d > grid.small:
            add("matched", *matched_to(d, grid))
    return sweep


FEW = Grid((64, 96), (4,), (4,))
few = partial(figure1, grid=FEW, seeds=1)
"""A small Figure 1."""


def matched_to(d, grid):
    """Return the small model nearest in total parameters to the standard model of size `d`.

    Return what a plan says of their match, too.
    """
    heads = grid.standard_heads[len(grid.standard_heads) // 2]
    target = Model(d, heads, d // heads).size["params_total"]
    candidates = [Model(grid.small, h, grid.head_size) for h in range(1, 4001)]
    model = min(candidates, key=lambda one: abs(one.size["params_total"] - target))
    error = model.size["params_total"] / target - 1
    return model, match(f"standard embedding_size={d} heads={heads}", error=error)


def by_hand(axes):
    """Return the sweep of a grid from the command line."""
    sweep = Sweep("grid", "lm1b", figure="curves", x=next(iter(axes)))
    for index, values in enumerate(product(*axes.values())):
        point = dict(zip(axes, values, strict=True))
        sweep.add("grid", Model(64, 2 + index, 32), [43.0 - index, 42.5], point)
    return sweep


def one_arm(key, measured, **about):
    """Return a sweep of the arm `fixed`. `measured` maps a value of `key` to each seed's metric."""
    sweep = Sweep(x=key, **about)
    for place, (value, seeds) in enumerate(measured.items()):
        sizes = {"model.heads": 2 + place, "model.head_size": 16, key: value}
        model = Model(64, sizes["model.heads"], sizes["model.head_size"])
        sweep.add("fixed", model, seeds, {key: value})
    return sweep


def theorem1(bidirectional=lambda n: n - 1, causal=lambda n: n // 2, *, seeds=2):
    """Return a Theorem 1 whose errors halve with each head size, and collapse at these knees."""
    sweep = Sweep(
        name="theorem1",
        title="The head size that a context takes",
        metric="test/context_error",
        figure="theorem1",
        x="model.head_size",
        claims=("bidirectional_takes_n_minus_1", "causal_takes_half"),
        labels={"bidirectional": "every key is seen", "causal": "causal mask"},
    )
    # The id of a synthetic run depends on heads, but not on the mask or the length.
    for heads, arm, knee in (
        (2, "bidirectional", bidirectional),
        (1, "causal", causal),
    ):
        for length in (5, 7):
            for size in range(1, length + 1):
                error = 0.5**size * (1e-7 if size >= knee(length) else 1.0)
                draw = random.Random(f"{arm}{length}{size}")
                measured = [error * 10 ** draw.gauss(0, 0.1) for _ in range(seeds)]
                values = {"task.sequence_length": length, "model.head_size": size}
                sweep.add(arm, Model(length, heads, size), measured, values)
    return sweep


FINETUNE = {"squad": ["test/f1", "test/exact_match"], "mnli": ["test/accuracy"]}
BASELINES = {"test/majority_accuracy": 0.353, "test/bag_of_words_accuracy": 0.381}
MODELS = {heads: Model(64, heads, 16) for heads in (8, 12, 32)}


def score(metric, model, seed):
    """Return a score that grows with the number of heads and differs between seeds."""
    percent = {"test/f1": 70.0, "test/exact_match": 60.0, "test/accuracy": 50.0}[metric]
    percent += model.heads / 4 + (0.6, -0.2, 0.1, 0.3, -0.5)[seed]
    percent += 1e-5 * (seed * model.heads % 7)
    return percent / 100 if metric.endswith("accuracy") else percent


def described(name):
    """Return the entry of a shipped experiment in a plan."""
    conf = Path(__file__).parents[3] / "conf" / "experiment" / f"{name}.yaml"
    about = OmegaConf.to_container(OmegaConf.load(conf), resolve=False)["experiment"]
    paper = {str(x): printed for x, printed in about.get("paper", {}).items()}
    return {"x": "params_total", **about, "claims": [], "paper": paper}


def finetuned(
    name="table2a",
    *,
    seeds=2,
    pretrainings=1,
    done=lambda task, heads, seed: True,
    **about,
):
    """Return a sweep of a shipped experiment over `MODELS`.

    Each point has several pre-trainings, and fine-tuning seeds use them in turn.
    """
    about = {**described(name), "text": "made up", **about}
    sweep = Sweep(name, about=about)

    def add(arm, model, task, seed, **parent):
        metrics = {key: score(key, model, seed) for key in FINETUNE.get(task, [])}
        metrics |= BASELINES if task == "mnli" else {"test/loss": 3.7}
        found = metrics if done(task, model.heads, seed) else None
        sweep.add(arm, model, {seed: found}, task=task, **parent)
        run = sweep.points[-1]["run"]
        if parent:
            sweep.records[run].size["params_total"] -= 4099
        return run

    for place, arm in enumerate(about["arms"]):
        for heads in MODELS:
            model = Model(64 + 32 * place, heads, 16)
            parents = [
                add(arm, model, "pretraining", seed) for seed in range(pretrainings)
            ]
            for task, seed in product(FINETUNE, range(seeds)):
                add(arm, model, task, seed, parent=parents[seed % pretrainings])
    return sweep
