"""Synthetic sweeps of fine-tuned models. Each point has pre-trainings and fine-tunings of them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from sweeper.results.collect import collect
from sweeper.results.table import Table
from sweeper.store.plans import write_plan
from sweeper.store.records import Record
from sweeper.store.runs import RunStore
from tests.sweeper.results.synthetic import Model

FINETUNE = {"squad": ["test/f1", "test/exact_match"], "mnli": ["test/accuracy"]}
BASELINES = {"test/majority_accuracy": 0.353, "test/bag_of_words_accuracy": 0.381}
MODELS = {heads: Model(64, heads, 16) for heads in (8, 12, 32)}

Done = Callable[[str, int, int], bool]


def score(metric: str, model: Model, seed: int) -> float:
    """Return a score that grows with the number of heads and differs between seeds."""
    percent = {"test/f1": 70.0, "test/exact_match": 60.0, "test/accuracy": 50.0}[metric]
    percent += model.heads / 4 + (0.6, -0.2, 0.1, 0.3, -0.5)[seed]
    percent += 1e-5 * (seed * model.heads % 7)
    return percent / 100 if metric.endswith("accuracy") else percent


def described(name: str) -> dict[str, Any]:
    """Return the entry of a shipped experiment in a plan."""
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
    """A sweep of a shipped experiment over `MODELS`, before it is written to disk.

    Each point has several pre-trainings, and fine-tuning seeds use them in turn.
    """

    name: str = "table2a"
    scale: str = "demo"
    seeds: int = 2
    about: Mapping[str, Any] = field(default_factory=dict)
    done: Done = lambda task, heads, seed: True
    pretrainings: int = 1

    def table(self, outputs: Path) -> Table:
        """Write the sweep to disk and return its table."""
        about = {
            **described(self.name),
            "scale": self.scale,
            "text": "made up",
            **self.about,
        }
        points: list[dict[str, Any]] = []
        runs: dict[str, Any] = {}
        store = RunStore(outputs)

        def add(
            task: str, arm: str, model: Model, seed: int, parent: str | None = None
        ) -> str:
            id = f"{task}-{arm}-h{model.heads}-s{seed}"
            names = {"experiment": self.name, "arm": arm}
            total = model.size["params_total"] - (0 if parent is None else 4099)
            size = {**model.size, "params_total": total}
            sizes = {"heads": model.heads, "head_size": None, "embedding_size": 64}
            config = {
                "seed": seed,
                "task": {"name": task},
                "model": sizes,
                "parent": parent,
            }
            record = {
                "id": id,
                "config": config,
                "size": size,
                "names": {**names, "label": arm},
            }
            run = store.freeze(Record(**record))
            if self.done(task, model.heads, seed):
                metrics = {
                    metric: score(metric, model, seed)
                    for metric in FINETUNE.get(task, [])
                }
                metrics |= BASELINES if task == "mnli" else {"test/loss": 3.7}
                attempt = run.claim({})
                run.publish_result(attempt, {"metrics": metrics, "steps": 97})
                attempt.finish("done")
            values = {"model.heads": model.heads}
            point = {
                "task": task,
                "seed": seed,
                "values": values,
                "run": id,
                "matched": None,
            }
            points.append({**names, **point})
            runs[id] = {"size": size, "parent": parent}
            return id

        for place, arm in enumerate(about["arms"]):
            for heads in MODELS:
                model = Model(64 + 32 * place, heads, 16)
                parents = [
                    add("pretraining", arm, model, n) for n in range(self.pretrainings)
                ]
                for task in FINETUNE:
                    for seed in range(self.seeds):
                        add(task, arm, model, seed, parents[seed % self.pretrainings])
        plan = {
            "command": ["sweep.py"],
            "scale": self.scale,
            "points": points,
            "runs": runs,
        }
        write_plan(outputs, {**plan, "experiments": {self.name: about}})
        [table] = collect(outputs, [self.name])
        return table
