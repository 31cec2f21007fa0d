"""Tests that Headroom finds this package's attention, model, task, figure and claim by name."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from headroom_example.cosine import CosineAttention
from headroom_example.recall import Pairs, RecallSection
from sweeper.store import registry
from tasks.config.architecture import variant
from tasks.size_server.attention_contract import behaviour_fault

B, T, D, H, P = 2, 7, 13, 3, 5


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (registry.ATTENTION, "cosine"),
        (registry.ARCHITECTURES, "pytorch"),
        (registry.TASKS, "recall"),
        (registry.FIGURES, "accuracy_by_head_size"),
        (registry.CLAIMS, "larger_heads_recall_more"),
    ],
    ids=lambda given: given if isinstance(given, str) else given.word,
)
def test_it_is_found_by_name_and_an_attempt_says_what_it_is(
    kind: registry.Kind, name: str
) -> None:
    assert name in registry.names(kind)
    assert registry.made_of(kind, name)["package"] == "headroom-example"


class Peeking(CosineAttention):
    """Attention that also adds the input of the next position, which the mask hides."""

    def forward(self, x_BTD: Tensor, mask_B1TT: Tensor | None = None) -> Tensor:
        return super().forward(x_BTD, mask_B1TT) + x_BTD.roll(-1, dims=1)


def test_it_keeps_the_contract_of_attention_and_one_that_sees_the_future_does_not() -> (
    None
):
    assert behaviour_fault(variant("cosine"), D, H, P) is None
    fault = behaviour_fault(Peeking, D, H, P)
    assert fault is not None
    assert "position 1 changes the output at position 0" in fault


def test_logits_stay_within_the_temperature() -> None:
    torch.manual_seed(0)
    attention = variant("cosine")(D, H, P, temperature=3)
    mask_B1TT = torch.ones(B, 1, T, T, dtype=torch.bool).tril()
    x_BTD: Tensor = 1000 * torch.randn(B, T, D)
    seen: list[Tensor] = []

    def weigh(query: Tensor, key: Tensor, value: Tensor, **options: object) -> Tensor:
        seen.append(query @ key.mT)
        return value

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.nn.functional, "scaled_dot_product_attention", weigh)
        attention(x_BTD, mask_B1TT)
    [logits_BHTT] = seen
    assert logits_BHTT.abs().max() <= 3 + 1e-4
    assert math.isclose(float(logits_BHTT.detach().max()), 3, rel_tol=0.1)


@pytest.mark.parametrize(
    ("precision", "dtype"), [("32-true", "float32"), ("64-true", "float64")]
)
def test_a_batch_asks_each_key_for_the_value_that_stood_beside_it(
    precision: str, dtype: str
) -> None:
    config: Any = SimpleNamespace(
        seed=3,
        task=RecallSection(name="recall", pairs=P, batch_rows=T),
        model=SimpleNamespace(embedding_size=D),
        trainer=SimpleNamespace(precision=precision),
    )
    x_BTD = Pairs(config).batch(11)["x"]
    assert x_BTD.dtype == getattr(torch, dtype)
    read, asked = x_BTD.split(P, dim=1)
    assert x_BTD.shape == (T, 2 * P, D)
    assert torch.equal(read[..., : D // 2], asked[..., : D // 2])
    assert (read[..., D // 2 :].abs() == 1).all()
    assert (asked[..., D // 2 :] == 0).all()
    # A batch depends only on the seed and the step.
    assert torch.equal(x_BTD, Pairs(config).batch(11)["x"])
    assert not torch.equal(x_BTD, Pairs(config).batch(12)["x"])


def test_the_experiment_is_planned_with_both_attentions(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "headroom_attention",
        "sweep",
        "-m",
        "experiment=recall",
    ]
    choice = ["model/attention=cosine", "hydra.sweeper.dry_run=true"]
    planned = subprocess.run(
        [*command, *choice], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert planned.returncode == 0, planned.stderr
    assert "8 runs" in planned.stdout


def test_its_language_model_is_planned_beside_ours(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "headroom_attention", "sweep", "-m"]
    models = ["model=pytorch,decoder", "hydra.sweeper.dry_run=true"]
    planned = subprocess.run(
        [*command, *models], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert planned.returncode == 0, planned.stderr
    assert "2 runs" in planned.stdout
