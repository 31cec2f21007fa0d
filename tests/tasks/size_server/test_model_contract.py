"""A plugin's language model that breaks the contract is refused when a run is planned."""

import pytest

from sweeper.store.errors import UserError
from tasks.size_server import model_contract
from tasks.size_server.sizes import size
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
LEAKS = {
    "the next position": ("x + x.roll(-1, 1)", False),
    "across packed sentences": ("x.cumsum(1)", True),
    "another row": ("x + x.roll(1, 0)", False),
}


def planned(installed, mixed, unused=0, **changes):
    model_contract._checked.clear()
    source = MODEL.format(mixed=mixed, unused=unused)
    installed("mixing", source, {"headroom.architectures": "mixing = mixing"})
    sizes = {"embedding_size": 17, "heads": 1, "head_size": None}
    return size(config({"model": {"name": "mixing", **sizes}, **changes}))


def test_a_model_of_a_package_has_a_size(installed):
    found = planned(installed, WITHIN)
    assert found["params_total"] == 307 * 17 + 17 * 18
    assert found["params_embedding"] == 307 * 17


@pytest.mark.parametrize("leak", LEAKS)
def test_a_model_that_leaks_is_refused(installed, leak):
    mixed, alone = LEAKS[leak]
    with pytest.raises(
        UserError, match=r"^model\.name=mixing: .* other tokens change them"
    ):
        planned(installed, mixed)
    joined = config(
        {
            "model": {
                "name": "mixing",
                "embedding_size": 17,
                "heads": 1,
                "head_size": None,
            },
            "task.joined": True,
        }
    )
    if alone:
        assert size(joined)["params_total"]
    else:
        with pytest.raises(UserError, match="other tokens change them"):
            size(joined)


def test_every_parameter_that_is_counted_learns(installed):
    with pytest.raises(UserError, match=r"but unused\.weight receives none"):
        planned(installed, WITHIN, unused=3)
