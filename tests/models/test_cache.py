"""Decoding token by token needs only the numbers that `cached_numbers` of a variant counts.

Shapes: T positions so far, D embedding_size, H heads, P head_size, M cached_numbers.
"""

import math
from functools import partial
from pathlib import Path

import pytest
import torch

from models.attention.collaborative import CollaborativeAttention
from models.attention.decoupled import DecoupledAttention
from models.attention.grouped_query import GroupedQueryAttention
from models.attention.latent import LatentAttention
from models.attention.multi_head import MultiHeadAttention
from models.measure import cache_bytes
from models.rotation import Rotation
from models.transformer import Decoder
from tests.models.conftest import DECODER

SIZES = {**DECODER, "heads": 6, "head_size": 4}
ROTARY = {"position_encoding": "rotary", "rotary_size": 4}


def _turned(x_THP, start, attention, decoder):
    """Apply the decoder's rotary encoding to vectors whose first position is `start`."""
    positions_1T = torch.arange(start, start + len(x_THP))[None]
    if not decoder.turned:
        return x_THP
    rotation = Rotation(positions_1T, decoder.turned, decoder.rotary_base)
    return rotation(x_THP[None], attention.rotary_size)[0]


def _attended(queries_HP, keys_THP, values_THU, scale):
    logits_HT = torch.einsum("hp,thp->ht", queries_HP, keys_THP) * scale
    return torch.einsum("ht,thu->hu", logits_HT.softmax(-1), values_THU).flatten()


def _multi_head(attention, x_D, memory_TM, turn):
    heads, shared, size = (
        attention.heads,
        attention.key_value_heads,
        attention.head_size,
    )
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
    q_HP, k_HP = (
        turn(x[None])[0] for x in attention.query_key(x_D).view(2, heads, size)
    )
    memory_TM = torch.cat(
        (memory_TM, torch.cat((k_HP.flatten(), attention.value(x_D)))[None])
    )
    k_TW, v_TW = memory_TM.split([heads * size, heads * attention.value_size], 1)
    k_THP, v_THU = (x.unflatten(1, (heads, -1)) for x in (k_TW, v_TW))
    return memory_TM, _attended(q_HP, k_THP, v_THU, 1 / math.sqrt(size))


def _collaborative(attention, x_D, memory_TM, turn):
    q_HS = attention.query(x_D) * attention.mixing
    memory_TM = torch.cat(
        (memory_TM, torch.cat((attention.key(x_D), attention.value(x_D)))[None])
    )
    k_TS, v_TW = memory_TM.split(
        [len(q_HS[0]), attention.heads * attention.head_size], 1
    )
    k_THS, v_THP = (
        k_TS[:, None].expand(-1, len(q_HS), -1),
        v_TW.unflatten(1, (len(q_HS), -1)),
    )
    return memory_TM, _attended(q_HS, k_THS, v_THP, 1 / math.sqrt(attention.head_size))


def _latent(attention, x_D, memory_TM, turn):
    heads, size, rotary = attention.heads, attention.head_size, attention.rotary_size
    own_HP, turned_HR = (
        attention.query(attention.query_latent(x_D))
        .view(heads, -1)
        .split([size, rotary], 1)
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
    """Decode token by token with caches. Return hidden_TD and the cache of each layer."""
    caches = [
        torch.zeros(0, block.attention.cached_numbers).double()
        for block in decoder.blocks
    ]
    hidden = []
    for position, token in enumerate(tokens_T):
        x_D = decoder.embedding(token.view(1, 1), torch.tensor([[position]]))[0, 0]
        for layer, block in enumerate(decoder.blocks):
            attention = block.attention
            turn = partial(
                _turned, start=position, attention=attention, decoder=decoder
            )
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
        (
            partial(GroupedQueryAttention, key_value_heads=1, qk_norm=True),
            _multi_head,
            ROTARY,
        ),
        (partial(DecoupledAttention, value_size=7), _decoupled, ROTARY),
        (partial(CollaborativeAttention, shared_size=11), _collaborative, {}),
        (partial(LatentAttention, latent_size=9, value_size=5), _latent, ROTARY),
        (partial(LatentAttention, latent_size=9, query_latent_size=7), _latent, {}),
    ],
)
@torch.no_grad()
def test_decoding_from_the_counted_numbers_equals_the_whole_row(
    attention, step, options
):
    decoder = Decoder(**SIZES, **options, attention=attention).double().eval()
    tokens_T = torch.randint(SIZES["vocabulary_size"], (11,))
    places_1T = torch.arange(11)[None]
    expected_TD = decoder(tokens_T[None], torch.ones_like(places_1T), places_1T)[0]
    hidden_TD, caches = decoded(decoder, tokens_T, step)
    torch.testing.assert_close(hidden_TD, expected_TD, rtol=0, atol=1e-10)
    kept = sum(cache.numel() for cache in caches)
    assert {"cache_bytes_per_token": 2 * kept // 11} == cache_bytes(decoder)


def published():
    """Return the rows of the table "Published decoders" in docs/today.md, without the sources."""
    today = Path(__file__).resolve().parents[2] / "docs" / "today.md"
    table = today.read_text("utf-8").partition("\n## Published decoders\n")[2]
    rows = [
        line.strip("| ").split(" | ")
        for line in table.splitlines()
        if line.startswith("| ")
    ]
    return [row[:8] for row in rows if row[1].isdecimal()]


def test_width_and_cache_of_published_decoders_are_those_of_our_layers():
    rows = published()
    assert len(rows) == 20
    for name, size, layers, heads, shared, head_size, width, cache in rows:
        own, _, turned = head_size.partition(" + ")
        sizes = (int(size), int(heads), int(own))
        with torch.device("meta"):
            if latent := shared.partition("latent ")[2]:
                rotary = {"latent_size": int(latent), "rotary_size": int(turned)}
                layer = LatentAttention(*sizes, **rotary)
            else:
                layer = GroupedQueryAttention(*sizes, key_value_heads=int(shared))
        assert (
            width == f"{int(heads) * (int(own) + int(turned or 0)) / int(size):.2f}"
        ), name
        # Each number takes two bytes.
        assert cache == f"{2 * int(layers) * layer.cached_numbers:,}", name
