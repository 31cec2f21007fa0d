"""Headroom's loop and pl.Trainer train every task to the same weights, bit for bit."""

import os
from pathlib import Path
from unittest.mock import Mock

import pandas as pd
import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.loggers import CSVLogger
from pytorch_lightning.plugins.precision import MixedPrecision

from headroom_attention import run as finished_run
from tasks.checkpoint import weights_digest
from tests.conftest import ROOT, Installed
from tests.end_to_end.test_sweep import python
from tests.refusals import refusal
from tests.tasks.jobs import ended, freeze, run_job
from tests.tasks.small import SMALL, opened

STEPS = 40
EXAMPLE = ROOT / "examples" / "extension" / "headroom_example"
# Every task, the task of the example plugin, and the language model with Muon, which combines two
# optimizers, and in other precisions.
CASES = {
    **SMALL,
    "recall": {
        "model": SMALL["representation"]["model"],
        "task": {"name": "recall", "pairs": 5, "batch_rows": 7},
    },
    "muon": {"optimizer.name": "muon", "optimizer.schedule": "cosine"},
    "half": {"trainer.precision": "bf16-mixed"},
    "double": {"trainer.precision": "64-true"},
}
# pl.Trainer warns about copied RNG states, the device, and too few workers of data loaders.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")


def changes_of(name):
    """Return the changes for a case, with dropout if its model has dropout."""
    dropout = {} if name in ("representation", "recall") else {"model.dropout": 0.1}
    steps = {"trainer.steps": STEPS, "trainer.validate_every": 15}
    return {**CASES[name], **dropout, **steps}


OFF = "logger enable_checkpointing enable_progress_bar enable_model_summary".split()


def trainer_for(module, **options):
    precision = module.config.trainer.precision
    usual = {"max_epochs": 1, "accelerator": "cpu", "precision": precision}
    return pl.Trainer(**dict.fromkeys(OFF, False) | usual | options)


@pytest.fixture(scope="module", autouse=True)
def _example_package(tmp_path_factory):
    """Make the plugin of examples/extension importable, as if it were installed."""
    with pytest.MonkeyPatch.context() as patch:
        packages = Installed(tmp_path_factory.mktemp("site"), patch)
        groups = {"headroom.tasks": "recall = headroom_example.recall"}
        packages("headroom_example", f"__path__ = [{str(EXAMPLE)!r}]\n", groups)
        # Processes that a test starts need the paths too.
        patch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{packages.folder}")
        yield
        packages.forget()


def fitted(shared, changes, resume_from=None, **options):
    """Train a module with pl.Trainer. Return the trainer and the module."""
    module = opened(shared, changes)
    trainer = trainer_for(module, **options)
    trainer.fit(module, datamodule=module.data, ckpt_path=resume_from)
    return trainer, module


def digest(module):
    return weights_digest(module.model.state_dict())


@pytest.fixture(scope="module", params=CASES)
def pair(request, shared):
    """The name of a case, and a run that Headroom's loop has trained for it."""
    return request.param, ended(
        shared, changes_of(request.param), f"loop-{request.param}"
    )


def test_both_end_with_the_same_weights_and_metrics(pair, shared):
    name, run = pair
    trainer, module = fitted(shared, changes_of(name), val_check_interval=15)
    assert trainer.global_step == STEPS
    assert digest(module) == run.result().weights_sha256
    [metrics] = trainer.test(module, datamodule=module.data, verbose=False)
    assert metrics == run.result().metrics
    [validation] = trainer.validate(module, datamodule=module.data, verbose=False)
    assert validation == run.result().validation


def test_a_limited_test_is_scored_by_its_own_rows(shared):
    """tests/tasks/lm1b scales the metrics of a part of the split."""
    module = opened(shared, changes_of("squad"))
    trainer_for(module, limit_test_batches=1).test(module, module.data, verbose=False)
    questions = len(module.data.keys["test"].gold())
    assert 0 < len(module.files()["predictions.json"]) < questions


class Crash(pl.Callback):
    """A callback that raises an error at the 31st step."""

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        if batch_idx == 30:
            raise ZeroDivisionError


def test_lightning_continues_from_its_checkpoint_with_the_same_bits(
    pair, shared, tmp_path
):
    """A job that is interrupted and continued is in test_resume.py."""
    name, run = pair
    saved = ModelCheckpoint(tmp_path, every_n_train_steps=23)
    module = opened(shared, changes_of(name))
    trainer = trainer_for(module, callbacks=[saved, Crash()], enable_checkpointing=True)
    with pytest.raises(ZeroDivisionError):
        trainer.fit(module, datamodule=module.data)
    trainer, module = fitted(
        shared, changes_of(name), saved.best_model_path, val_check_interval=15
    )
    assert trainer.global_step == STEPS
    assert digest(module) == run.result().weights_sha256


def test_a_child_starts_from_its_parent_under_both(shared):
    parent = ended(shared, SMALL["pretraining"], "parent")
    changes = {**SMALL["mnli"], "parent": parent.id}
    run = ended(shared, changes, "child")
    _, module = fitted(shared, changes)
    assert digest(module) == run.result().weights_sha256


def test_a_run_gives_its_module_and_its_data_before_and_after_training(shared):
    planned = freeze(shared, changes_of("lm1b"), "planned")
    one = finished_run(planned.id, outputs=shared)
    module, data = one.module(), one.data()
    trainer_for(module).fit(module, datamodule=data)
    assert run_job(planned) == 0
    trained = planned.result().weights_sha256
    assert digest(module) == trained
    assert digest(one.module()) == trained

    longer = {"trainer.steps": 60, "optimizer.schedule": "constant", "seed": 5}
    module, data = one.module(longer), one.data(longer)
    assert digest(module) == trained
    trainer = trainer_for(module)
    trainer.fit(module, datamodule=data)
    assert trainer.global_step == 60
    assert digest(module) != trained


TWO_PROCESSES = """if True:
    import sys
    import warnings
    from pathlib import Path
    warnings.filterwarnings("ignore")
    import headroom_attention
    import pytorch_lightning as pl
    import torch

    run = headroom_attention.run(sys.argv[1], outputs=sys.argv[2])
    module, data = run.module(), run.data()
    trainer = pl.Trainer(
        max_epochs=1, accelerator="cpu", devices=2, strategy="ddp", val_check_interval=15,
        logger=False, enable_checkpointing=False, enable_progress_bar=False,
    )
    trainer.fit(module, datamodule=data)
    trainer.test(module, datamodule=data, verbose=False)
    if trainer.is_global_zero:
        metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
        torch.save({"weights": module.model.state_dict(), "metrics": metrics}, sys.argv[3])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", sorted(CASES.keys() - {"representation", "muon", "half", "double"})
)
def test_two_processes_end_nearly_alike(name, shared, tmp_path):
    changes = changes_of(name)
    if "model.dropout" in changes:  # each rank would draw other masks
        changes["model.dropout"] = 0.0
    run = ended(shared, {**changes, "trainer.devices": 2}, f"two-{name}")
    alone = freeze(shared, changes, f"planned-{name}")
    script = tmp_path / "two.py"
    script.write_text(TWO_PROCESSES)
    saved = tmp_path / "two.pt"
    python(script, alone.id, shared, saved, cwd=tmp_path, timeout=500)
    found = torch.load(saved, weights_only=True)
    ours = finished_run(run.id, outputs=shared).model().state_dict()
    for key, weight in found["weights"].items():
        torch.testing.assert_close(weight, ours[key], rtol=1e-6, atol=1e-6)
    for key, value in run.result().metrics.items():
        assert found["metrics"][key] == pytest.approx(value, rel=1e-6)


def test_data_of_another_number_of_steps_are_refused(shared):
    module, longer = (opened(shared, {"trainer.steps": n}) for n in (7, 9))
    told = refusal(trainer_for(module).fit, module, datamodule=longer.data)
    assert told.startswith("trainer.steps=7: expected trainer.steps=9")


def test_a_dataloader_that_was_looked_into_still_begins_with_the_first_batch(shared):
    batches = opened(shared, {}).data.train_dataloader()
    first = next(iter(batches))
    again = next(iter(batches))
    assert all(torch.equal(again[name], first[name]) for name in first)


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_in_half_precision_gradients_are_clipped_at_their_own_scale(
    optimizer, shared, monkeypatch
):
    clip, norms = torch.nn.utils.clip_grad_norm_, []

    def record(*given):
        norms.append(clip(*given).item())

    monkeypatch.setattr(torch.nn.utils, "clip_grad_norm_", record)
    changes = {"trainer.steps": 7, "optimizer.name": optimizer}
    scaler = torch.amp.GradScaler("cpu")
    half = MixedPrecision("16-mixed", "cpu", scaler=scaler)
    for options in ({}, {"plugins": [half], "precision": None}):
        fitted(shared, changes, **options)
    assert scaler.get_scale() > 1
    assert norms[7:] == pytest.approx(norms[:7], rel=0.1)


@pytest.mark.parametrize(
    ("options", "limits"),
    [
        ({"gradient_clip_val": 0.01, "gradient_clip_algorithm": "value"}, {"value"}),
        ({"gradient_clip_val": 0.01}, {"norm"}),
        ({"gradient_clip_val": 0}, set()),
        ({}, {"norm"}),
    ],
    ids=["by value", "by norm", "off", "as the config says"],
)
def test_gradients_are_clipped_as_the_trainer_says(
    options, limits, shared, monkeypatch
):
    spies = {"value": Mock(), "norm": Mock()}
    for kind, spy in spies.items():
        monkeypatch.setattr(torch.nn.utils, f"clip_grad_{kind}_", spy)
    fitted(shared, {"trainer.steps": 6}, **options)
    assert {kind for kind, spy in spies.items() if spy.called} == limits


def test_the_learning_rate_of_every_step_is_logged(shared, tmp_path):
    logger = CSVLogger(tmp_path)
    every_step = {"logger": logger, "log_every_n_steps": 1}
    _, module = fitted(shared, {"trainer.steps": 9}, **every_step)
    rows = pd.read_csv(Path(logger.log_dir) / "metrics.csv")
    rates = [module.learning_rate(step) for step in range(1, 10)]
    assert [*rows["learning_rate"].dropna()] == pytest.approx(rates)


def test_trained_weights_of_other_shapes_are_refused(shared):
    ended(shared, {"trainer.steps": 6}, "sized")
    run = finished_run("sized", outputs=shared)
    told = refusal(run.module, {"model.heads": 4})
    assert "keep the shapes of the trained weights" in told
