"""What a scale sets is right for how long its runs train and where."""

from __future__ import annotations

import pytest

from tasks.parse import parse
from tasks.task import learning_rate

EVERY = "fig1,fig2"  # language models, encoders, and what is fine-tuned from them


@pytest.fixture
def configs(plan):
    def of(scale, experiments=EVERY):
        found = plan(f"experiment={experiments}", f"scale={scale}", "seed=0")
        return [run.config for run in found.runs.values()]

    return of


@pytest.mark.parametrize("scale", ["gpu", "paper"])
def test_what_is_for_a_gpu_trains_in_bfloat16(configs, scale):
    found = {config["task"]["name"]: config["trainer"]["precision"] for config in configs(scale)}
    assert found == dict.fromkeys(("lm1b", "pretraining", "mnli", "squad"), "bf16-mixed")


@pytest.mark.parametrize("scale", ["demo", "gpu"])
def test_a_short_training_is_not_stopped_for_validations(configs, scale):
    assert {config["trainer"]["validate_every"] for config in configs(scale)} == {0}


@pytest.mark.parametrize("scale", ["demo", "gpu", "paper"])
def test_a_language_model_is_trained_for_several_times_what_its_optimizer_remembers(configs, scale):
    for config in configs(scale, "fig1"):
        optimizer, steps = config["optimizer"], config["trainer"]["steps"]
        assert 2 / (1 - optimizer["betas"][1]) < steps
        assert 2 * optimizer["warmup_steps"] < steps


def test_the_rate_of_language_models_at_gpu_scale_peaks_where_its_yaml_says(configs):
    [config] = {str(one["optimizer"]): one for one in configs("gpu", "fig1")}.values()
    trained = parse(config)
    rates = [learning_rate(trained.optimizer, 600, step) for step in range(1, 601)]
    assert max(rates) == pytest.approx(0.002)
    assert trained.optimizer.gradient_clip == 1.0
