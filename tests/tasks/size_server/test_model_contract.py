"""A plugin's language model that breaks the contract is refused when a run is planned."""

import pytest

from tasks.size_server import model_contract
from tasks.size_server.sizes import size
from tests.refusals import refusal
from tests.tasks.jobs import config

MODEL = """
import torch
from torch import nn
from models.embedding import TokenEmbedding
from models.language_model import LanguageModel
from tasks.config.architecture import Architecture

class Mixing(LanguageModel):
    def __init__(self, words, size):
        super().__init__()
        self.table, self.mix = TokenEmbedding(words, size), nn.Linear(size, size)
        self.unused = nn.Linear({unused}, 1) if {unused} else None

    def forward(self, tokens, segments, positions):
        x = self.mix(self.table(tokens, positions))
        return {mixed}

    def softmax_layer(self):
        return self.table.weight, None

class MixingSection(Architecture):
    def build(self, vocabulary_size: int) -> Mixing:
        return Mixing(vocabulary_size, self.embedding_size)
"""
WITHIN = "(segments[:, :, None] == segments[:, None]).tril().float() @ x"
MIXING = {"name": "mixing", "embedding_size": 17, "heads": 1, "head_size": None}


def planned(installed, mixed, unused=0):
    model_contract._checked.clear()
    source = MODEL.format(mixed=mixed, unused=unused)
    installed("mixing", source, {"headroom.architectures": "mixing = mixing"})
    return size(config({"model": MIXING}))


def test_a_model_of_a_package_has_a_size(installed):
    found = planned(installed, WITHIN)
    assert found["params_total"] == 307 * 17 + 17 * 18
    assert found["params_embedding"] == 307 * 17


@pytest.mark.parametrize(
    ("mixed", "joins"),
    [
        ("x + x.roll(-1, 1)", False),  # the next position
        ("x.cumsum(1)", True),  # across packed sentences
        ("x + x.roll(1, 0)", False),  # another row
    ],
)
def test_a_model_that_leaks_is_refused_unless_sentences_are_joined_and_it_joins_them(
    installed, mixed, joins
):
    told = "other tokens change them"
    assert told in refusal(planned, installed, mixed)
    joined = config({"model": MIXING, "task.joined": True})
    if joins:
        assert size(joined)["params_total"]
    else:
        assert told in refusal(size, joined)


def test_every_parameter_that_is_counted_learns(installed):
    assert "but unused.weight receives none" in refusal(
        planned, installed, WITHIN, unused=3
    )
