"""Caches hold what decoding needs, and models have the closed forms and the published sizes."""

import math
from functools import partial

import pytest
import torch

from models.attention.collaborative import CollaborativeAttention
from models.attention.decoupled import DecoupledAttention
from models.attention.grouped_query import GroupedQueryAttention
from models.attention.latent import LatentAttention
from models.attention.multi_head import MultiHeadAttention
from models.measure import cache_bytes, parameter_counts
from models.rotation import Rotation
from models.transformer import Decoder, Encoder
from tests.models.conftest import DECODER

SIZES = {**DECODER, "heads": 6, "head_size": 4}
ROTARY = {"position_encoding": "rotary", "rotary_size": 4}


def _turned(x_THP, start, attention, decoder):
    """Return the vectors of positions from `start` on as the decoder would turn them."""
    positions_1T = torch.arange(start, start + len(x_THP))[None]
    if not decoder.turned:
        return x_THP
    rotation = Rotation(positions_1T, decoder.turned, decoder.rotary_base)
    return rotation(x_THP[None], attention.rotary_size)[0]


def _attended(queries_HP, keys_THP, values_THU, scale):
    logits_HT = torch.einsum("hp,thp->ht", queries_HP, keys_THP) * scale
    return torch.einsum("ht,thu->hu", logits_HT.softmax(-1), values_THU).flatten()


def _multi_head(attention, x_D, memory_TM, turn):
    heads, shared, size = attention.heads, attention.key_value_heads, attention.head_size
    q_HP, k_KP, v_KP = attention.qkv(x_D).view(-1, size).split([heads, shared, shared])
    if attention.norm is not None:
        q_HP, k_KP = attention.norm(torch.cat((q_HP, k_KP))[None, None])[0, 0].split(
            [heads, shared]
        )
    q_HP, k_KP = (turn(x[None])[0] for x in (q_HP, k_KP))
    memory_TM = torch.cat((memory_TM, torch.cat((k_KP, v_KP)).view(1, -1)))
    k_TKP, v_TKP = memory_TM.view(-1, 2, shared, size).unbind(1)
    k_THP, v_THP = (x.repeat_interleave(heads // shared, 1) for x in (k_TKP, v_TKP))
    return memory_TM, _attended(q_HP, k_THP, v_THP, 1 / math.sqrt(size))


def _decoupled(attention, x_D, memory_TM, turn):
    heads, size = attention.heads, attention.head_size
    q_HP, k_HP = (turn(x[None])[0] for x in attention.query_key(x_D).view(2, heads, size))
    memory_TM = torch.cat((memory_TM, torch.cat((k_HP.flatten(), attention.value(x_D)))[None]))
    k_TW, v_TW = memory_TM.split([heads * size, heads * attention.value_size], 1)
    k_THP, v_THU = (x.unflatten(1, (heads, -1)) for x in (k_TW, v_TW))
    return memory_TM, _attended(q_HP, k_THP, v_THU, 1 / math.sqrt(size))


def _collaborative(attention, x_D, memory_TM, turn):
    q_HS = attention.query(x_D) * attention.mixing
    memory_TM = torch.cat((memory_TM, torch.cat((attention.key(x_D), attention.value(x_D)))[None]))
    k_TS, v_TW = memory_TM.split([len(q_HS[0]), attention.heads * attention.head_size], 1)
    k_THS, v_THP = k_TS[:, None].expand(-1, len(q_HS), -1), v_TW.unflatten(1, (len(q_HS), -1))
    return memory_TM, _attended(q_HS, k_THS, v_THP, 1 / math.sqrt(attention.head_size))


def _latent(attention, x_D, memory_TM, turn):
    heads, size, rotary = attention.heads, attention.head_size, attention.rotary_size
    own_HP, turned_HR = (
        attention.query(attention.query_latent(x_D)).view(heads, -1).split([size, rotary], 1)
    )
    q_HS = torch.cat((own_HP, turn(turned_HR[None])[0]), 1)
    c_C, r_R = attention.shared(x_D).split([attention.latent_size, rotary])
    kept_M = torch.cat((attention.latent_norm(c_C), turn(r_R[None, None])[0, 0]))
    memory_TM = torch.cat((memory_TM, kept_M[None]))
    c_TC, r_TR = memory_TM.split([attention.latent_size, rotary], 1)
    k_THP = attention.key(c_TC).unflatten(1, (heads, -1))
    k_THS = torch.cat((k_THP, r_TR[:, None].expand(-1, heads, -1)), 2)
    v_THU = attention.value(c_TC).unflatten(1, (heads, -1))
    return memory_TM, _attended(q_HS, k_THS, v_THU, 1 / math.sqrt(size + rotary))


def decoded(decoder, tokens_T, step):
    """Return hidden_TD, each position from the caches of those before it, and the caches."""
    caches = [torch.zeros(0, block.attention.cached_numbers).double() for block in decoder.blocks]
    hidden = []
    for position, token in enumerate(tokens_T):
        x_D = decoder.embedding(token.view(1, 1), torch.tensor([[position]]))[0, 0]
        for layer, block in enumerate(decoder.blocks):
            attention = block.attention
            turn = partial(_turned, start=position, attention=attention, decoder=decoder)
            normed_D = block.attention_norm(x_D)
            caches[layer], context_W = step(attention, normed_D, caches[layer], turn)
            x_D = x_D + attention.output(context_W)
            x_D = x_D + block.feed_forward(block.feed_forward_norm(x_D))
        hidden.append(decoder.final_norm(x_D))
    return torch.stack(hidden), caches


@pytest.mark.parametrize(
    ("attention", "step", "options"),
    [
        (MultiHeadAttention, _multi_head, {}),
        (MultiHeadAttention, _multi_head, ROTARY),
        (partial(GroupedQueryAttention, key_value_heads=2), _multi_head, ROTARY),
        (partial(GroupedQueryAttention, key_value_heads=1, qk_norm=True), _multi_head, ROTARY),
        (partial(DecoupledAttention, value_size=7), _decoupled, ROTARY),
        (partial(CollaborativeAttention, shared_size=11), _collaborative, {}),
        (partial(LatentAttention, latent_size=9, value_size=5), _latent, ROTARY),
        (partial(LatentAttention, latent_size=9, query_latent_size=7), _latent, {}),
    ],
)
@torch.no_grad()
def test_decoding_from_the_counted_numbers_equals_the_whole_row(attention, step, options):
    decoder = Decoder(**SIZES, **options, attention=attention).double().eval()
    tokens_T = torch.randint(SIZES["vocabulary_size"], (11,))
    places_1T = torch.arange(11)[None]
    expected_TD = decoder(tokens_T[None], torch.ones_like(places_1T), places_1T)[0]
    hidden_TD, caches = decoded(decoder, tokens_T, step)
    torch.testing.assert_close(hidden_TD, expected_TD, rtol=0, atol=1e-10)
    kept = sum(cache.numel() for cache in caches)
    assert {"cache_bytes_per_token": 2 * kept // 11} == cache_bytes(decoder)


TODAY = {
    "position_encoding": "rotary",
    "normalisation": "rms",
    "feedforward": "gated",
    "activation": "silu",
    "biases": False,
    "scale_embeddings": False,
}
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
    sizes = {**DECODER, "heads": 6, "head_size": [[3, 5, 5, 3, 5, 2], 4]}
    uneven = Decoder(**sizes, attention=MultiHeadAttention)
    assert cache_bytes(uneven) == {"cache_bytes_per_token": 2 * 2 * (23 + 6 * 4)}

    class Silent(MultiHeadAttention):
        cached_numbers = None

    for model in (Decoder(**sizes, attention=Silent), Encoder(**sizes)):
        assert cache_bytes(model) == {}


LM1B = {"vocabulary_size": 32768, "layers": 6, "feedforward_size": 1024}
# Vocabulary, layers, embedding size, width, feed-forward size of the model in conftest.py.
V, LAYERS, D, W, F = 23, 2, 13, 15, 17


def _counts(**sizes):
    with torch.device("meta"):
        return parameter_counts(Decoder(**sizes))


@pytest.mark.parametrize("tie", [True, False], ids=["tied", "untied"])
def test_counts_equal_the_closed_form(tie):
    embedding = V * D * (1 if tie else 2)
    blocks = LAYERS * (4 * D * W + 2 * D * F + F + D + 4 * D) + 2 * D
    assert _counts(**DECODER, tie_embeddings=tie) == {
        "params_total": embedding + blocks,
        "params_embedding": embedding,
        "params_non_embedding": blocks,
        "params_attention": LAYERS * 4 * D * W,
    }


TABLE = [  # embedding_size, heads, head_size; millions: tied, untied, without embeddings
    (256, 8, 32, (13.12, 21.51, 4.73)),
    (512, 8, 64, (29.38, 46.16, 12.61)),
    (256, 4, 32, (12.34, 20.72, 3.95)),
    (256, 70, 32, (25.31, 33.70, 16.92)),
]


@pytest.mark.parametrize(("embedding_size", "heads", "head_size", "millions"), TABLE)
def test_the_papers_language_models_have_the_known_sizes(
    embedding_size, heads, head_size, millions
):
    sizes = {**LM1B, "embedding_size": embedding_size, "heads": heads, "head_size": head_size}
    tied, untied = (_counts(**sizes, tie_embeddings=t) for t in (1, 0))
    counts = (tied["params_total"], untied["params_total"], tied["params_non_embedding"])
    assert tuple(round(count / 1e6, 2) for count in counts) == millions
    assert tied["params_non_embedding"] == untied["params_non_embedding"]
