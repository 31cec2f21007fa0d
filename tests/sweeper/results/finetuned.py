"""Synthetic sweeps of fine-tuned models. Each point has pre-trainings and fine-tunings of them."""

from itertools import product
from pathlib import Path
from types import MappingProxyType

from omegaconf import OmegaConf

from tests.sweeper.results.synthetic import Model, Sweep

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
    whole = OmegaConf.to_container(OmegaConf.load(conf), resolve=False)
    about = whole["experiment"]
    keys = {"title", "metric", "x", "figure", "finetune"} & about.keys()
    paper = {str(x): printed for x, printed in about.get("paper", {}).items()}
    arms = {arm: {"label": entry["label"]} for arm, entry in about["arms"].items()}
    chosen = {key: about[key] for key in keys}
    return {"x": "params_total", **chosen, "claims": [], "paper": paper, "arms": arms}


def finetuned(
    name="table2a",
    *,
    seeds=2,
    pretrainings=1,
    about=MappingProxyType({}),
    done=lambda task, heads, seed: True,
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
        run = str(sweep.points[-1]["run"])
        if parent:
            own = model.size["params_total"] - 4099
            sweep.records[run]["size"] = {**model.size, "params_total": own}
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
