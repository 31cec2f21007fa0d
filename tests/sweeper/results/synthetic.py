"""Synthetic sweeps: records on disk as the sweeper writes them, with known results."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sweeper.results.collect import collect
from sweeper.store.plans import write_plan
from sweeper.store.records import Record
from sweeper.store.runs import RunStore

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


def contrary(model):
    """Return a perplexity that contradicts the paper: more heads hurt the fixed arm only."""
    if model.head_size == 32 and model.embedding_size == 64:
        return 50.0 + 0.5 * model.heads
    return 40.0 - model.embedding_size / 32 - math.log2(model.heads)


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
    margin: Mapping[str, Any] = field(default_factory=dict)
    error: float = 0.05
    labels: Mapping[str, str] = field(default_factory=dict)
    about: Mapping[str, Any] = field(default_factory=dict)
    points: list[dict[str, Any]] = field(default_factory=list)
    records: dict[str, dict[str, Any]] = field(default_factory=dict)
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    attempts: dict[str, dict[str, Any]] = field(default_factory=dict)

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
            "layers": values.get("model.layers", LAYERS),
            "embedding_size": model.embedding_size,
            "heads": model.heads,
            "head_size": None,
            "feedforward_size": values.get("model.feedforward_size", FEEDFORWARD),
            "attention": {"name": values.get("model.attention.name", "multi_head")},
        }
        names = {"experiment": self.name, "arm": arm}
        for seed, value in measured.items():
            config = {"seed": seed, "model": sizes, "task": {"name": task}}
            config["parent"] = parent
            record = {
                "config": config,
                "size": model.size,
                "names": {**names, "label": arm},
            }
            size = f"d{model.embedding_size}-h{model.heads}x{model.head_size}"
            run = f"{task}-{size}-s{seed}"
            if self.records.get(run, record)["config"] != config:
                run += f"-{len(self.records)}"
            self.records[run] = {"id": run, **record}
            if value is not None:
                if not isinstance(value, Mapping):
                    loss = math.log(abs(value) + 1)
                    value = {self.metric: value, "test/loss": loss}
                self.results[run] = {
                    "metrics": value,
                    "steps": 97,
                    "tokens_seen": 97 * 1024,
                    "seconds": 12.5,
                    "tokens_per_second": 7946.2,
                    "device": "a CPU, 2 threads",
                }
            point = {"task": task, "values": dict(values), "matched": matched}
            self.points.append({**names, **point, "seed": seed, "run": run})

    @property
    def plan(self):
        """Return the plan, as the planner writes it."""
        told = "title metric x figure scale claims margin error".split()
        arms = [*self.labels, *(point["arm"] for point in self.points)]
        labels = {arm: {"label": self.labels.get(arm, arm)} for arm in arms}
        return {
            "command": ["python", "sweep.py", "-m", f"experiment={self.name}"],
            "scale": self.scale,
            "experiments": {
                self.name: {
                    **{key: getattr(self, key) for key in told},
                    "arms": labels,
                    **self.about,
                }
            },
            "points": self.points,
            "runs": {
                id: {
                    **{"size": record["size"], "steps": 97, "batch_tokens": 1024},
                    "parent": record["config"]["parent"],
                }
                for id, record in self.records.items()
            },
        }

    def write(self, outputs, *, attempts=True):
        """Write the plan and the records with the store. Results can lack attempts."""
        write_plan(outputs, self.plan)
        store = RunStore(outputs)
        for id, record in self.records.items():
            run = store.freeze(Record(**record))
            if id in self.results:
                about = self.attempts.get(id, {})
                attempt = run.claim(about) if attempts else run.attempt(1)
                run.publish_result(attempt, self.results[id])
                if attempts:
                    attempt.finish("done")
        return outputs

    def table(self, outputs=None):
        """Return the table of the sweep. If `outputs` is set, the sweep stays there on disk."""
        with TemporaryDirectory() as folder:
            attempts = bool(self.attempts)
            written = self.write(outputs or Path(folder), attempts=attempts)
            [table] = collect(written, [self.name])
        return table


def edited(table, **cells):
    """Return the table with changed cells. A function computes the cell from its row."""
    rows = [
        row | {k: v(row) if callable(v) else v for k, v in cells.items()}
        for row in table.rows
    ]
    return replace(table, rows=rows)
