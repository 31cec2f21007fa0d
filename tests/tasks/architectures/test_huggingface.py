"""Tests that models of `transformers` are measured and checked like ours, with equal results."""

import pytest
import torch

from tasks.export.decoder import decoder_config, decoder_weights
from tasks.size_server import model_contract
from tasks.size_server.sizes import size
from tests.refusals import refusal
from tests.tasks.export.test_decoder import TODAY, packed_rows, section, sharpen
from tests.tasks.jobs import composed, config
from tests.tasks.small import evaluated, made, opened

pytest.importorskip("transformers")


def foreign(kind="mistral", **changes):
    """Return changes to the small config, which select this class of `transformers`."""
    typed = (
        f"model=huggingface model.type={kind} model.layers=2 model.embedding_size=18 "
        "model.heads=3 model.head_size=6 model.feedforward_size=23 model.dropout=0.0"
    )
    return {"model": composed(typed)["model"] | changes}


@pytest.fixture(autouse=True)
def _nothing_is_checked_yet():
    model_contract._checked.clear()


def test_with_our_weights_it_has_our_loss():
    today = {"model": TODAY["model"] | {"rotary_base": 10_000.0}}
    sizes = ("layers", "embedding_size", "heads", "head_size", "feedforward_size")
    ours = made(today).model
    theirs = made(foreign(**{key: today["model"][key] for key in sizes})).model
    sharpen(ours)
    settings = decoder_config(section(today), 307, length=64)
    state = decoder_weights(settings, ours.state_dict())
    lacking = theirs.model.load_state_dict(state, strict=False)
    assert lacking == (["lm_head.weight"], [])

    rows = packed_rows()
    (found, _), (expected, _) = (
        model.loss(model(*rows), rows[0]) for model in (ours, theirs)
    )
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=0)


def test_it_has_the_counts_of_our_decoder_of_the_same_shape():
    theirs = size(config(foreign()))
    same = foreign()["model"] | {"name": "decoder"}
    today = composed("model=today model.activation=silu")["model"]
    ours = size(config({"model": {key: same.get(key) or today[key] for key in today}}))
    for count in ("params_total", "params_embedding", "width"):
        assert theirs[count] == ours[count], count
    # Some versions compute the angles of rotations by a matrix product.
    assert theirs["flops_per_token"] == pytest.approx(ours["flops_per_token"], rel=1e-3)
    assert not {"params_attention", "cache_bytes_per_token"} & theirs.keys()


@pytest.mark.parametrize("kind", ["gpt2", "qwen3"])
def test_it_is_evaluated_and_its_heads_are_measured(prepared, kind):
    task = opened(prepared, foreign(kind))
    metrics = evaluated(task)
    assert set(task.measured) <= metrics.keys()
    assert 1 <= metrics["test/attention_rank"] <= 6


def test_a_model_that_sees_other_segments_is_trained_on_joined_sentences_only():
    assert "task.joined=true" in refusal(size, config(foreign("opt")))
    assert size(config({**foreign("opt"), "task.joined": True}))["params_total"]


@pytest.mark.parametrize(
    ("kind", "changes", "told"),
    [
        ("mistrel", {}, "write model.type=mistral."),
        ("mistral", {"options": {"sliding_windov": 8}}, "options.sliding_window."),
        ("mistral", {"options": {"hidden_size": 8}}, "write model.embedding_size."),
        ("gpt2", {"head_size": 5}, "expected 6, since GPT2Config has no key for it"),
        ("bloom", {}, "model.feedforward_size=23: expected null"),
        ("mistral", {"options": {"num_key_value_heads": 2}}, "but the call raised"),
        ("gemma2", {}, "its softmax layer's logits unchanged"),
    ],
    ids=str,
)
def test_what_transformers_cannot_build_is_one_sentence(kind, changes, told):
    assert told in refusal(size, config(foreign(kind, **changes)))
