"""An attention variant that breaks the contract is refused when its run is planned."""

import pytest

from sweeper.store import registry
from tasks.config.architecture import variant
from tasks.size_server import attention_contract
from tasks.size_server.sizes import size
from tests.refusals import refusal
from tests.tasks.jobs import config

VARIANT = """
import torch.nn.functional as F
from torch import nn

class Variant(nn.Module):
    def __init__({signature}):
        super().__init__()
        {begin}
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


def source_of(attend=ATTEND, signature=SIGNATURE, begin=""):
    return VARIANT.format(signature=signature, attend=attend, begin=begin)


def planned(installed, source, name="mine", changes={}):  # noqa: B006
    """Install a plugin with this variant. Return the size of a run that uses it."""
    attention_contract._checked.clear()
    installed(name, source, {"headroom.attention": f"{name} = {name}"})
    return size(config({"model.attention": {"name": name}, **changes}))


@pytest.mark.parametrize(
    "attend",
    [
        ATTEND,  # keywords
        # Own softmax.
        "context = (q @ k.mT).masked_fill(~mask_B1TT, float('-inf')).softmax(-1) @ v",
        "context = F.scaled_dot_product_attention(q, k, v, mask_B1TT)",
        # Shared keys.
        "k, v = k[:, :1], v[:, :1]; "
        "context = F.scaled_dot_product_attention(q, k, v, mask_B1TT, enable_gqa=True)",
        "k, v = k[:, :1], v[:, :1]; "
        "context = F.scaled_dot_product_attention(q, k, v, attn_mask=mask_B1TT)",  # broadcast keys
        "context = F.scaled_dot_product_attention(q, F.pad(k, (0, 0, 1, 0)), "
        "F.pad(v, (0, 0, 1, 0)), F.pad(mask_B1TT, (1, 0), value=True))",  # one key more
    ],
)
def test_a_variant_that_keeps_it_has_a_size(installed, attend):
    found = planned(installed, source_of(attend))
    assert found["params_attention"] == 2 * (17 * 45 + 45 + 15 * 17 + 17)


def test_its_own_options_are_those_of_its_constructor(installed):
    told = refusal(planned, installed, source_of(signature=f"{SIGNATURE}, rank: int"))
    assert "attention.rank=(missing): expected a whole number" in told
    assert size(config({"model.attention": {"name": "mine", "rank": 5}}))


DRAWN = "vars(self).setdefault('o', __import__('random').random())"
BREACHES = {
    "no keywords": (
        {"signature": "self, embedding_size, heads, head_size"},
        "Variant(embedding_siz",
    ),
    "untyped": (
        {"signature": f"{SIGNATURE}, rank=3"},
        "a type annotation for its option rank",
    ),
    "shapes": ("context = q @ k", "but it raised RuntimeError"),
    "positions": ("context = v[..., :1, :]", "but the layer returned (11, 1, 17)"),
    "not on meta": (f"{ATTEND}.numpy()", "but it raised "),
    "no batch": (
        "context = F.scaled_dot_product_attention(q[0], k[0], v[0])[None]",
        "but the layer returned (1, 10, 17)",
    ),
    "no mask": (
        "context = F.scaled_dot_product_attention(q, k, v)",
        "position 1 changes the",
    ),
    "across segments": (
        "context = F.scaled_dot_product_attention(q, k, v, is_causal=True)",
        "with a causal mask, position 0 changes the output at position 4",
    ),
    "next position": (
        f"{ATTEND}; context = context + v.roll(-1, 2)",
        "with a causal mask, position 1 changes the output at position 0",
    ),
    "from padding": (
        f"{ATTEND}; context[:, :, 8:] += context[:, :, :1]",
        "position 0 changes the output at position 8",
    ),
    "other rows": (
        f"{ATTEND}; context = context + context.mean(0, keepdim=True)",
        "do not depend on other rows of the batch, but they do",
    ),
    "in whole blocks": (
        f"{ATTEND}\n        if len(x_BTD[0]) % 16 == 0: context = context + v.mean(2, True)",
        "changes the output at position 0 (positions in the row: ",
    ),
    "not in its state": (
        f"{ATTEND}; context = context * {DRAWN}",
        "a state_dict that holds the whole layer, but a new layer",
    ),
    "modes": (
        f"{ATTEND}; context = context * (0.9 if self.training else 1.0)",
        "equal outputs in training (without dropout) and in evaluation",
    ),
    "unused": (f"{ATTEND}; context = context.detach()", "but qkv.weight receives none"),
    "not a number": (
        f"{ATTEND}; context = context / 0 * 0",
        "finite outputs, but some are NaN",
    ),
}


@pytest.mark.parametrize(("breach", "told"), BREACHES.values(), ids=BREACHES)
def test_a_variant_that_breaks_it_is_one_sentence(installed, breach, told):
    changes = breach if isinstance(breach, dict) else {"attend": breach}
    sentence = refusal(planned, installed, source_of(**changes))
    assert sentence.startswith("model.attention.name=mine: expected ")
    assert told in sentence
    assert sentence.endswith("; fix the variant's code.") or "signature" in changes


@pytest.mark.parametrize(
    "cheats",
    [
        "len(x_BTD[0]) > 64",
        "len(x_BTD[0]) % 2",
        "q.dtype == __import__('torch').bfloat16",
    ],
)
def test_a_variant_that_looks_ahead_in_rows_of_the_run_alone_is_refused(
    installed, cheats
):
    attend = f"{ATTEND}\n        if {cheats}: context = context + v.roll(-1, 2)"
    own = {
        "task.sequence_length": 96,
        "task.batch_tokens": 96,
        "trainer.precision": "bf16-mixed",
    }
    told = refusal(planned, installed, source_of(attend), changes=own)
    assert "changes the output at position" in told


def test_each_number_of_heads_is_tried_not_only_the_first_of_its_kind(installed):
    attend = f"{ATTEND}\n        if self.heads == 6: context = context + v.roll(-1, 2)"
    assert planned(installed, source_of(attend), changes={"model.heads": 3})
    assert "changes the output at position" in refusal(
        size, config({"model.attention": {"name": "mine"}, "model.heads": 6})
    )


ROTARY = {
    "model.position_encoding": "rotary",
    "model.rotary_size": 2,
    "model.head_size": 4,
}


def test_a_variant_turns_queries_and_keys_or_is_refused_under_rotary_positions(
    installed,
):
    told = refusal(planned, installed, source_of(), changes=ROTARY)
    assert "name=mine: expected a variant that supports" in told
    takes = source_of(begin="self.rotary_size = 4")
    takes = takes.replace("mask_B1TT=None):", "mask_B1TT=None, rotation=None):")
    assert "depend on the rotation, but they are the same without it" in refusal(
        planned, installed, takes, "ignores", ROTARY
    )
    turned = "q, k = (x.transpose(1, 2) for x in (q, k))\n        if rotation:\n"
    turned += "            q, k = rotation(q, 4), rotation(k, 4)\n"
    turned += "        q, k = (x.transpose(1, 2) for x in (q, k))\n        context ="
    assert planned(installed, takes.replace("context =", turned), "turns", ROTARY)


def test_each_shape_is_checked_and_a_refused_value_is_the_users(installed):
    signature = f"{SIGNATURE}, groups: int = 4"
    refuses = "if heads % groups: raise ValueError(f'{heads} heads in {groups} groups')"
    source = source_of(signature=signature, begin=refuses)
    mine = {"model.attention": {"name": "mine"}, "model.heads": 8}
    assert planned(installed, source, changes=mine)
    told = "heads=6, head_size=5, groups=4 (6 heads in 4 groups); choose other sizes or options."
    assert told in refusal(size, config({**mine, "model.heads": 6}))
    assert "heads=1, head_size=5, groups=4 (1 heads in 4 groups)" in refusal(
        size, config({**mine, "model.head_size": [[5] + 7 * [3]] * 2})
    )


@pytest.mark.parametrize("name", registry.names(registry.ATTENTION))
@pytest.mark.parametrize("sizes", [(16, 2, 8), (12, 3, 5), (10, 1, 16)], ids=str)
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_our_own_variants_keep_it(name, sizes, precision):
    build = variant(name)
    assert (
        attention_contract.behaviour_fault(build, *sizes, precision=precision) is None
    )


@pytest.mark.parametrize("length", [2, 3, 4])
def test_rotary_positions_are_tried_in_rows_of_any_length(length):
    attention_contract._checked.clear()
    rows = {"task.sequence_length": length, "task.batch_tokens": 4 * length}
    rotary = {"model.position_encoding": "rotary", "model.head_size": 4}
    assert size(config({**rows, **rotary}))["width"] == 3 * 4
