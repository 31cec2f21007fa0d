"""Fixtures that plan with a fake size server, which computes sizes with a formula."""

import re
import shutil
from pathlib import Path

import pytest

from sweeper.hydra_section import composer
from sweeper.plan.compose import CONF
from sweeper.plan.planner import Planner
from sweeper.store.identity import leaves
from tests.policies import shipped


class FakeProcess:
    """A size server that builds no models and reads no text."""

    def __init__(self):
        self.asked, self.text = [], None

    def ask(self, questions):
        return [self._answer(question) for question in questions]

    def _answer(self, question):
        self.asked.append(question["op"])
        if question["op"] == "import":
            return {"run": self.imported}
        config = question["config"]
        if question["op"] == "data":
            source = f"text of {config['data']['source']} {config['data']['root']}"
            text = self.text or source
            prepared = f"{text} for {config['task']['name']}"
            return {"digest": text, "describe": text, "prepared": prepared}
        model, vocabulary = config["model"], config["task"].get("vocabulary_size", 0)
        d, h, ff = map(model.get, ("embedding_size", "heads", "feedforward_size"))
        if model["head_size"] is None and d % h:
            return {"error": f"model.heads={h}: expected a divisor of {d}; choose one."}
        layers = model.get("layers", 1)
        p = model["head_size"] or d // h
        by_layer = p if isinstance(p, list) else [p] * layers
        width = sum(
            sum(size) if isinstance(size, list) else h * size for size in by_layer
        )
        own = model.get("attention", {})
        values = (own.get("value_size") or 0) * h * layers or width
        keys = (own.get("shared_size") or 0) * layers or width
        ff = ff or 0
        feedforward = layers * (2 * d * ff + ff + 5 * d)
        embedding = (vocabulary + model.get("positions", 0)) * d
        total = embedding + 2 * d * (keys + values) + feedforward + 2 * d
        if "latent_size" in own:
            kept = layers * (own["latent_size"] + own["rotary_size"])
        elif "key_value_heads" in own:
            kept = 2 * own["key_value_heads"] * width // h
        else:
            kept = width + values
        size = {
            "params_total": total,
            "params_non_embedding": total - embedding,
            "flops_per_token": 6 * total + config["task"].get("sequence_length", 0),
            "tokens": 10**6,
            "width": width / layers if width % layers else width // layers,
        }
        if model["name"] == "decoder":
            size["cache_bytes_per_token"] = 2 * kept
        if not isinstance(p, list):
            size["head_size"] = p
        return {"size": size}


def each(found, key):
    """Return the value of a config key in each run of a plan."""
    return [leaves(run.config).get(key) for run in found.runs.values()]


def points(found, **about):
    """Return the points of a plan with these attributes."""
    return [point for point in found.points if about.items() <= vars(point).items()]


@pytest.fixture
def process():
    return FakeProcess()


@pytest.fixture
def with_experiment(tmp_path):
    """Return a function that copies conf/, adds an experiment and returns the copy's path."""

    def with_experiment(name, text):
        conf = shutil.copytree(CONF, tmp_path / "conf", dirs_exist_ok=True)
        (conf / "experiment" / f"{name}.yaml").write_text(text)
        return conf

    return with_experiment


@pytest.fixture
def plan(tmp_path, process, with_experiment, monkeypatch):
    # Write to the default folder, outputs/, since a test may compare the whole config.
    monkeypatch.chdir(tmp_path)

    def run(*typed, conf=None, text=None):
        """Return the plan of a command line.

        Args:
            typed: the overrides, or several of them in one string.
            conf: a folder that replaces conf/, or its composer.
            text: the yaml of an experiment to plan.
        """
        if text:
            conf, typed = with_experiment("mine", text), ("experiment=mine", *typed)
        arguments = re.split(r" (?=\S+=)", " ".join(typed))
        composed = composer(conf) if isinstance(conf, Path) else conf or shipped()
        return Planner(composed, process, max_runs=10_000).plan(arguments)

    return run
