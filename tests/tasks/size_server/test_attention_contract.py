"""An attention variant that breaks the contract is refused when its run is planned."""

import pytest

from sweeper.store.errors import UserError
from tasks.size_server import attention_contract
from tasks.size_server.sizes import size
from tests.tasks.jobs import config

VARIANT = """
import torch.nn.functional as F
from torch import nn

class Variant(nn.Module):
    def __init__({signature}):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(embedding_size, 3 * heads * head_size)
        self.output = nn.Linear(heads * head_size, embedding_size)

    def forward(self, x_BTD, mask_B1TT=None):
        q, k, v = self.qkv(x_BTD).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        {attend}
        return self.output(context.transpose(1, 2).flatten(2))
"""
SIGNATURE = "self, embedding_size, heads, head_size, *, bias=False, dropout=0.0"
ATTEND = "context = F.scaled_dot_product_attention(q, k, v, attn_mask=mask_B1TT)"
WITHOUT = "context = (q @ k.mT).masked_fill(~mask_B1TT, float('-inf')).softmax(-1) @ v"


def planned(installed, source, **options):
    """What planning a run of this variant gives."""
    attention_contract._checked.clear()
    installed("mine", source, {"headroom.attention": "mine = mine"})
    return size(config({"model.attention": {"name": "mine", **options}}))


@pytest.mark.parametrize(
    "attend",
    [
        ATTEND,
        WITHOUT,
        "context = F.scaled_dot_product_attention(q, k, v, mask_B1TT)",
        "context = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.5)",
        "k, v = k[:, :1], v[:, :1]; "
        "context = F.scaled_dot_product_attention(q, k, v, mask_B1TT, enable_gqa=True)",
    ],
    ids=["keywords", "own softmax", "positions", "causal", "shared keys"],
)
def test_a_variant_that_keeps_it_has_a_size(installed, attend):
    found = planned(installed, VARIANT.format(signature=SIGNATURE, attend=attend))
    assert found["params_attention"] == 2 * (17 * 45 + 45 + 15 * 17 + 17)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"signature": "self, embedding_size, heads, head_size"}, "expected Variant(embedding_siz"),
        ({"signature": "self, heads, head_size, *, bias, dropout"}, "expected Variant(embedding_s"),
        ({"signature": f"{SIGNATURE}, rank=3"}, "expected a type for its option rank"),
        ({"attend": "context = q @ k"}, "but it raised RuntimeError"),
        ({"attend": "context = v[..., :1, :]"}, "but it returned (1, 1, 17)"),
        ({"attend": f"{ATTEND}.numpy()"}, "but it raised "),
        (
            {"attend": "context = F.scaled_dot_product_attention(q[0], k[0], v[0])[None]"},
            "queries and keys are to be (B, H, T, P)",
        ),
    ],
    ids=["no keywords", "two sizes", "untyped", "shapes", "positions", "not on meta", "no batch"],
)
def test_one_that_breaks_it_is_one_sentence(installed, changes, told):
    source = VARIANT.format(**{"signature": SIGNATURE, "attend": ATTEND, **changes})
    with pytest.raises(UserError) as caught:
        planned(installed, source)
    sentence = str(caught.value)
    assert sentence.startswith("model.attention.name=mine: expected ")
    assert told in sentence
    assert "\n" not in sentence


def test_its_own_options_are_those_of_its_constructor(installed):
    source = VARIANT.format(signature=f"{SIGNATURE}, rank: int", attend=ATTEND)
    with pytest.raises(UserError, match=r"attention\.rank=\(missing\): expected a whole number"):
        planned(installed, source)
    assert size(config({"model.attention": {"name": "mine", "rank": 5}}))
