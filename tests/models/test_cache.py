"""Tests of the size of the KV cache: of each attention variant, and of published decoders."""

from functools import partial

import pytest
import torch

from models.measure import cache_bytes
from tasks.config.architecture import variant
from tests.conftest import ROOT
from tests.models.conftest import decoder

HEADS, SIZE = 6, 4


@pytest.mark.parametrize(
    ("name", "options", "kept"),
    [
        ("multi_head", {}, HEADS * (SIZE + SIZE)),
        ("decoupled", {"value_size": 7}, HEADS * (SIZE + 7)),
        ("collaborative", {"shared_size": 11}, 11 + HEADS * SIZE),
    ],
)
def test_a_layer_keeps_its_keys_and_values_or_what_they_are_computed_from(
    name, options, kept
):
    attention = partial(variant(name), **options)
    model = decoder(heads=HEADS, head_size=SIZE, attention=attention)
    two_bytes = 2 * kept * len(model.blocks)
    assert cache_bytes(model) == {"cache_bytes_per_token": two_bytes}


def published():
    """Return the rows of the table "Published decoders" in docs/today.md, without the sources."""
    today = (ROOT / "docs" / "today.md").read_text("utf-8")
    table = today.partition("\n## Published decoders\n")[2]
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
                layer = variant("latent")(*sizes, **rotary)
            else:
                layer = variant("grouped_query")(*sizes, key_value_heads=int(shared))
        assert (
            width == f"{int(heads) * (int(own) + int(turned or 0)) / int(size):.2f}"
        ), name
        # Each number takes two bytes.
        assert cache == f"{2 * int(layers) * layer.cached_numbers:,}", name
