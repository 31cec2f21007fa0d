"""A trained run re-parametrised: the same outputs at full size, an ordinary run by its content."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from models.attention.collaborative import CollaborativeAttention
from models.transformer import Decoder, Encoder
from sweeper.store.errors import UserError
from sweeper.store.identity import run_id
from sweeper.store.runs import Run, RunStore
from tasks.reparametrize import main, reparametrized
from tasks.training.inheritance import adapted
from tests.tasks.jobs import config, run_job

SIZES: dict[str, Any] = {
    "vocabulary_size": 29,
    "layers": 2,
    "embedding_size": 13,
    "heads": 3,
    "head_size": 5,
    "feedforward_size": 17,
}
WIDTH = 15


def _shared(size: int) -> Callable[..., nn.Module]:
    def build(*sizes: int, **options: Any) -> nn.Module:
        return CollaborativeAttention(*sizes, **options, shared_size=size)

    return build


def _inputs(kind: type[nn.Module]) -> list[torch.Tensor]:
    tokens_BT = torch.randint(SIZES["vocabulary_size"], (3, 7))
    ones_BT = torch.ones_like(tokens_BT)
    if kind is Decoder:
        return [tokens_BT, ones_BT, torch.arange(7).expand(3, -1)]
    return [tokens_BT, 0 * ones_BT, ones_BT.bool()]


@pytest.mark.parametrize("kind", [Decoder, Encoder])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-9)], ids=str
)
def test_of_full_size_the_outputs_are_those_of_the_original(
    kind: Any, dtype: torch.dtype, tolerance: float
) -> None:
    original = kind(**SIZES).to(dtype).eval()
    for layer in original.modules():  # attention that is neither faint nor even
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight, std=0.3)
    inputs = _inputs(kind)
    wanted_BTD = original(*inputs)
    for size, near in ((WIDTH, True), (WIDTH + 2, True), (2, False)):
        pytest.importorskip("tensorly")
        model = kind(**SIZES, attention=_shared(size)).to(dtype).eval()
        weights = adapted(model, original.state_dict(), SIZES["heads"])
        model.load_state_dict(weights)
        found_BTD = model(*inputs)
        assert torch.allclose(found_BTD, wanted_BTD, rtol=0, atol=tolerance) == near


def test_weights_that_share_already_are_taken_as_they_are() -> None:
    model = Decoder(**SIZES, attention=_shared(7))
    weights = model.state_dict()
    assert adapted(model, weights, SIZES["heads"]).keys() == weights.keys()


def test_other_heads_than_the_parents_are_refused() -> None:
    original, model = Decoder(**SIZES), Decoder(**{**SIZES, "heads": 5, "head_size": 3})
    shared = Decoder(**{**SIZES, "heads": 5, "head_size": 3}, attention=_shared(7))
    assert (
        model.blocks[0].attention.qkv.weight.shape == original.blocks[0].attention.qkv.weight.shape
    )
    with pytest.raises(
        UserError, match=r"model\.heads=5 of 3: expected the heads of the parent, 3"
    ):
        adapted(shared, original.state_dict(), SIZES["heads"])


def test_without_tensorly_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "tensorly.decomposition", None)
    model = Decoder(**SIZES, attention=_shared(7))
    with pytest.raises(UserError, match="needs tensorly, which is not installed; install it"):
        adapted(model, Decoder(**SIZES).state_dict(), SIZES["heads"])


def _frozen(outputs: Path) -> Run:
    made = config({"trainer.validate_every": 0})
    names = {"experiment": "none", "arm": "none", "label": "parent"}
    record = {"id": run_id(made), "config": made, "size": {}, "names": names}
    return RunStore(outputs).freeze(record)


def test_a_run_becomes_another_whose_parent_it_is(
    outputs: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    parent = _frozen(outputs)
    assert main([str(parent.path), "shared_size=15"]) == 1
    assert "expected a finished run; train it first." in capfd.readouterr().err
    assert run_job(parent) == 0
    before = parent.result()
    assert before is not None
    child = reparametrized(parent, {"model.attention.shared_size": 15})
    record = child.record()
    assert record["config"]["parent"] == parent.id
    assert child.id == run_id(record["config"])
    assert reparametrized(parent, {"model.attention.shared_size": 15}).id == child.id
    assert run_job(child) == 0
    result = child.result()
    assert result is not None
    assert result["steps"] == result["tokens_seen"] == 0
    assert result["metrics"]["test/loss"] == pytest.approx(before["metrics"]["test/loss"], abs=1e-5)
    tuned = reparametrized(parent, {"model.attention.shared_size": 15, "trainer.steps": 5})
    assert run_job(tuned) == 0
    after = tuned.result()
    assert after is not None
    assert after["steps"] == 5
    assert after["metrics"]["test/loss"] != result["metrics"]["test/loss"]


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("shared_size", "cannot be read; write key=value"),
        ("shared=3", "shared=3: expected a key of the run's config"),
        ("trainer.steps=-1", "trainer.steps=-1: expected a whole number"),
    ],
)
def test_a_wrong_command_line_is_one_sentence(
    outputs: Path,
    capfd: pytest.CaptureFixture[str],
    argument: str,
    words: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parent = _frozen(outputs)
    monkeypatch.setattr(Run, "result", lambda self: {"metrics": {}})
    assert main([str(parent.path), argument]) == 1
    told = capfd.readouterr().err
    assert words in told
    assert told.count("\n") == 1
