"""Decoders of today equal those of transformers, and have the published sizes and caches.

Shapes: B batch, T positions, D embedding_size, V vocabulary.
"""

import importlib
from functools import partial

import pytest
import torch
from torch import nn

from models.attention.grouped_query import GroupedQueryAttention
from models.attention.latent import LatentAttention
from models.attention.multi_head import MultiHeadAttention
from models.mask import attention_mask
from models.measure import cache_bytes, parameter_counts
from models.transformer import Decoder, Encoder

TODAY = {
    "position_encoding": "rotary",
    "normalisation": "rms",
    "feedforward": "gated",
    "activation": "silu",
    "biases": False,
    "scale_embeddings": False,
}
V, D, F, LAYERS, BASE = 29, 22, 37, 2, 700.0
SIZES = {"vocabulary_size": V, "layers": LAYERS, "embedding_size": D, "feedforward_size": F}
THEIRS = {
    "vocab_size": V,
    "num_hidden_layers": LAYERS,
    "hidden_size": D,
    "intermediate_size": F,
    "rms_norm_eps": 1.0e-6,
    "rope_parameters": {"rope_type": "default", "rope_theta": BASE},
    "max_position_embeddings": 64,
    "tie_word_embeddings": False,
    "attn_implementation": "sdpa",
}
GROUPED = {"num_attention_heads": 6, "num_key_value_heads": 2, "head_dim": 10}
LATENT = {
    "num_attention_heads": 3,
    "num_key_value_heads": 3,
    "qk_nope_head_dim": 10,
    "qk_rope_head_dim": 4,
    "v_head_dim": 7,
    "kv_lora_rank": 11,
    "rope_interleave": False,
    "first_k_dense_replace": LAYERS,  # a dense layer in place of experts
}
latent = partial(LatentAttention, latent_size=11, rotary_size=4, value_size=7)
CASES = {
    "Mistral": (GROUPED, 6, partial(GroupedQueryAttention, key_value_heads=2)),
    "Qwen3": (GROUPED, 6, partial(GroupedQueryAttention, key_value_heads=2, qk_norm=True)),
    "DeepseekV3": ({**LATENT, "q_lora_rank": None}, 3, latent),
    "DeepseekV3 with a latent of queries": (
        {**LATENT, "q_lora_rank": 13},
        3,
        partial(latent, query_latent_size=13),
    ),
}
# Their name of each of our parameters, with the layer's prefix taken away; several are stacked.
NAMES = {
    "attention_norm.weight": ["input_layernorm"],
    "feed_forward_norm.weight": ["post_attention_layernorm"],
    "feed_forward.expand.weight": ["mlp.gate_proj", "mlp.up_proj"],
    "feed_forward.contract.weight": ["mlp.down_proj"],
    "attention.qkv.weight": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    "attention.norm.query": ["self_attn.q_norm"],
    "attention.norm.key": ["self_attn.k_norm"],
    "attention.query.weight": ["self_attn.q_proj"],
    "attention.query_latent.0.weight": ["self_attn.q_a_proj"],
    "attention.query_latent.1.weight": ["self_attn.q_a_layernorm"],
    "attention.shared.weight": ["self_attn.kv_a_proj_with_mqa"],
    "attention.latent_norm.weight": ["self_attn.kv_a_layernorm"],
    "attention.output.weight": ["self_attn.o_proj"],
}


def theirs(name, changes, dtype):
    """Build a model of transformers that normalises in `dtype`, not in single precision."""
    pytest.importorskip("transformers", reason="transformers is not installed")
    module = importlib.import_module("transformers")
    config = getattr(module, f"{name}Config")(**THEIRS, **changes)
    model = getattr(module, f"{name}ForCausalLM")(config).to(dtype)
    for parent in [*model.modules()]:
        for child, layer in [*parent.named_children()]:
            if type(layer).__name__.endswith("RMSNorm"):
                nn.init.normal_(layer.weight, mean=1.0, std=0.1)
                norm = nn.RMSNorm(len(layer.weight), eps=1.0e-6, dtype=dtype)
                norm.load_state_dict(layer.state_dict())
                setattr(parent, child, norm)
    for layer in model.modules():  # attention that is neither faint nor even
        if isinstance(layer, nn.Linear | nn.Embedding):
            nn.init.normal_(layer.weight, std=0.3)
    return model.eval()


def mapped(found, heads):
    """Return what is by their names (weights or gradients) by our names."""

    def part(name):
        key = next(key for key in (f"{name}.weight", name) if key in found)
        return found[key]

    ours = {
        "embedding.weight": found["model.embed_tokens.weight"],
        "final_norm.weight": found["model.norm.weight"],
        "softmax.weight": found["lm_head.weight"],
    }
    for layer in range(LAYERS):
        their_prefix, prefix = f"model.layers.{layer}.", f"blocks.{layer}."
        own = {k.removeprefix(their_prefix) for k in found if k.startswith(their_prefix)}
        last = {"self_attn.q_b_proj"} & {name.removesuffix(".weight") for name in own}
        names = NAMES | ({"attention.query.weight": [*last]} if last else {})
        if "self_attn.kv_b_proj.weight" in own:
            both = found[f"{their_prefix}self_attn.kv_b_proj.weight"].unflatten(0, (heads, -1))
            key, value = both.split([LATENT["qk_nope_head_dim"], LATENT["v_head_dim"]], 1)
            ours[f"{prefix}attention.key.weight"] = key.flatten(0, 1)
            ours[f"{prefix}attention.value.weight"] = value.flatten(0, 1)
            names = {name: value for name, value in names.items() if name != "attention.qkv.weight"}
        else:
            names = {name: v for name, v in names.items() if name != "attention.query.weight"}
        for name, parts in names.items():
            if all(f"{part}.weight" in own for part in parts):
                stacked = [part(f"{their_prefix}{one}") for one in parts]
                ours[f"{prefix}{name}"] = torch.cat(stacked)
    return ours


def packed_rows():
    """Two rows of several segments: tokens_BT, segments_BT and positions_BT."""
    lengths = [[5, 1, 7, 4], [9, 8]]
    segments = [[s for s, n in enumerate(row, 1) for _ in range(n)] for row in lengths]
    positions = [[t for n in row for t in range(n)] for row in lengths]
    return torch.randint(V, (2, 17)), torch.tensor(segments), torch.tensor(positions)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-10)], ids=str
)
@pytest.mark.parametrize("name", CASES)
def test_logits_and_gradients_are_those_of_transformers(name, dtype, tolerance):
    changes, heads, attention = CASES[name]
    reference = theirs(name.partition(" ")[0], changes, dtype)
    model = Decoder(
        **SIZES, **TODAY, heads=heads, head_size=10, rotary_base=BASE, tie_embeddings=False,
        attention=attention,
    ).to(dtype)  # fmt: skip
    model.load_state_dict(mapped(reference.state_dict(), heads))
    tokens_BT, segments_BT, positions_BT = packed_rows()
    weights_BTV = torch.randn(*tokens_BT.shape, V, dtype=dtype)

    mask_B1TT = attention_mask(segments_BT, causal=True).as_subclass(torch.Tensor)
    expected_BTV = reference(
        tokens_BT, attention_mask=mask_B1TT, position_ids=positions_BT, use_cache=False
    ).logits
    logits_BTV = model.logits(model(tokens_BT, segments_BT, positions_BT))
    torch.testing.assert_close(logits_BTV, expected_BTV, rtol=tolerance, atol=tolerance)

    for one in (expected_BTV, logits_BTV):
        (one * weights_BTV).sum().backward()
    gradients = {key: one.grad for key, one in reference.named_parameters()}
    expected = mapped(gradients, heads)
    assert expected.keys() == {key for key, _ in model.named_parameters()}
    for key, parameter in model.named_parameters():
        size = float(expected[key].abs().max())
        torch.testing.assert_close(
            parameter.grad, expected[key], rtol=tolerance, atol=tolerance * size, msg=key
        )


SMOLLM2 = {
    "vocabulary_size": 49_152, "layers": 30, "embedding_size": 576, "heads": 9, "head_size": 64,
    "feedforward_size": 1536, "attention": partial(GroupedQueryAttention, key_value_heads=3),
}  # fmt: skip
QWEN3 = {
    "vocabulary_size": 151_936, "layers": 28, "embedding_size": 1024, "heads": 16,
    "head_size": 128, "feedforward_size": 3072,
    "attention": partial(GroupedQueryAttention, key_value_heads=8, qk_norm=True),
}  # fmt: skip
LLAMA3 = {
    "vocabulary_size": 128_256, "layers": 32, "embedding_size": 4096, "heads": 32,
    "head_size": 128, "feedforward_size": 14_336, "tie_embeddings": False,
    "attention": partial(GroupedQueryAttention, key_value_heads=8),
}  # fmt: skip


@pytest.mark.parametrize(
    ("sizes", "count"),
    [(SMOLLM2, 134_515_008), (QWEN3, 596_049_920), (LLAMA3, 8_030_261_248)],
    ids=["SmolLM2-135M", "Qwen3-0.6B", "Llama 3 8B"],
)
def test_published_decoders_have_their_published_numbers_of_parameters(sizes, count):
    with torch.device("meta"):
        model = Decoder(**sizes, **TODAY)
    assert parameter_counts(model)["params_total"] == count


DEEPSEEK_V3 = {  # dense: the cache does not depend on experts
    "vocabulary_size": 129_280, "layers": 61, "embedding_size": 7168, "heads": 128,
    "head_size": 128, "feedforward_size": 18_432,
    "attention": partial(LatentAttention, latent_size=512, query_latent_size=1536, rotary_size=64),
}  # fmt: skip


@pytest.mark.parametrize(
    ("sizes", "count"),
    [(LLAMA3, 131_072), (DEEPSEEK_V3, 70_272)],
    ids=["Llama 3 8B", "DeepSeek V3"],
)
def test_published_decoders_have_their_published_cache(sizes, count):
    with torch.device("meta"):
        model = Decoder(**sizes, **TODAY)
    assert cache_bytes(model) == {"cache_bytes_per_token": count}


def test_a_cache_is_counted_where_every_layer_says_what_it_keeps():
    sizes = {**SIZES, "heads": 6, "head_size": [[3, 5, 5, 3, 5, 2], 4], "dropout": 0.0}
    uneven = Decoder(**sizes, attention=MultiHeadAttention)
    assert cache_bytes(uneven) == {"cache_bytes_per_token": 2 * 2 * (23 + 6 * 4)}

    class Silent(MultiHeadAttention):
        cached_numbers = None

    for model in (Decoder(**sizes, attention=Silent), Encoder(**sizes)):
        assert cache_bytes(model) == {}
