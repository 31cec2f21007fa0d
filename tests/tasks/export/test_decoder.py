"""Tests that exported decoders compute the same as Mistral, Qwen3 or DeepseekV3 in `transformers`.

Shapes: B batch, T positions, V vocabulary.
"""

import pytest
import torch
from torch import nn

from models.mask import attention_mask
from tasks.export.decoder import decoder_config, decoder_weights
from tests.models.conftest import both_precisions, pack
from tests.refusals import refusal
from tests.tasks.jobs import composed
from tests.tasks.small import made

V = 29
TODAY = {
    "model": composed(
        "model=today model.layers=2 model.embedding_size=22 model.heads=6 model.head_size=10 "
        "model.feedforward_size=23 model.rotary_base=700.0 model.dropout=0.0"
    )["model"]
}
LATENT = {"name": "latent", "latent_size": 11, "rotary_size": 4, "value_size": 7}
CASES = {
    "MistralForCausalLM": {
        "name": "grouped_query",
        "key_value_heads": 2,
        "qk_norm": False,
    },
    "Qwen3ForCausalLM": {
        "name": "grouped_query",
        "key_value_heads": 3,
        "qk_norm": True,
    },
    "DeepseekV3ForCausalLM": {**LATENT, "query_latent_size": None},
    "DeepseekV3ForCausalLM, a latent of queries": {**LATENT, "query_latent_size": 13},
}


def section(changes):
    return made({**TODAY, **changes}).config.model


def reference(settings, state, dtype):
    """Build the model of `transformers` with our weights. It normalises in `dtype`, not float32."""
    transformers = pytest.importorskip("transformers")
    name = settings["architectures"][0]
    made = getattr(transformers, name.replace("ForCausalLM", "Config"))(**settings)
    made._attn_implementation = "sdpa"
    model = getattr(transformers, name)(made).to(dtype)
    for parent in [*model.modules()]:
        for child, layer in [*parent.named_children()]:
            if type(layer).__name__.endswith("RMSNorm"):
                norm = nn.RMSNorm(
                    len(layer.weight), eps=layer.variance_epsilon, dtype=dtype
                )
                setattr(parent, child, norm)
    missing = ["lm_head.weight"] * settings["tie_word_embeddings"]
    assert model.load_state_dict(state, strict=False) == (missing, [])
    return model.eval()


def sharpen(model):
    """Draw weights with which attention is neither faint nor even."""
    for parameter in model.parameters():
        mean, std = (1.0, 0.1) if parameter.dim() == 1 else (0.0, 0.3)
        nn.init.normal_(parameter, mean, std)


def packed_rows():
    """Return two rows of several segments, as tokens_BT, segments_BT and positions_BT."""
    rows = pack(5, 1, 7, 4), pack(9, 8)
    return [torch.cat(parts) for parts in zip(*rows, strict=True)]


@pytest.mark.parametrize("tied", [True, False])
@both_precisions
@pytest.mark.parametrize("name", CASES)
def test_logits_and_gradients_are_those_of_transformers(name, dtype, tolerance, tied):
    ours = section({"model.attention": CASES[name], "model.tie_embeddings": tied})
    settings = decoder_config(ours, V, length=64)
    assert settings["architectures"] == [name.partition(",")[0]]
    model = ours.build(V).to(dtype).eval()
    sharpen(model)
    theirs = reference(settings, decoder_weights(settings, model.state_dict()), dtype)
    tokens_BT, segments_BT, positions_BT = packed_rows()

    mask_B1TT = attention_mask(segments_BT, causal=True).as_subclass(torch.Tensor)
    expected_BTV = theirs(
        tokens_BT, attention_mask=mask_B1TT, position_ids=positions_BT, use_cache=False
    ).logits
    logits_BTV = model.logits(model(tokens_BT, segments_BT, positions_BT))
    torch.testing.assert_close(logits_BTV, expected_BTV, rtol=tolerance, atol=tolerance)

    weights_BTV = torch.randn_like(logits_BTV)
    for one in (expected_BTV, logits_BTV):
        (one * weights_BTV).sum().backward()
    gradients = {key: one.grad for key, one in model.named_parameters()}
    found = decoder_weights(settings, gradients)
    expected = {key: one.grad for key, one in theirs.named_parameters()}
    assert found.keys() == expected.keys()
    for key, gradient in expected.items():
        size = tolerance * float(gradient.abs().max())
        torch.testing.assert_close(
            found[key], gradient, rtol=tolerance, atol=size, msg=key
        )


def test_older_versions_of_transformers_read_the_base_of_rotations_by_its_own_key():
    settings = decoder_config(section({}), V, length=64)
    assert settings["rope_theta"] == settings["rope_parameters"]["rope_theta"] == 700.0


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            {"model.position_encoding": "sinusoidal", "model.rotary_base": 10_000.0},
            "model.position_encoding=sinusoidal: expected rotary, as in model=today",
        ),
        (
            {"model.head_size": [4, 6]},
            "model.head_size=[4,6]: expected one size for all heads",
        ),
        (
            {"model.attention": {"name": "decoupled", "value_size": 3}},
            "model.attention.name=decoupled: expected one of multi_head, grouped_query, latent",
        ),
    ],
)
def test_what_no_class_computes_is_refused_by_its_key(changes, told):
    assert told in refusal(decoder_config, section(changes), V, length=64)
