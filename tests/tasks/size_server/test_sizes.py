"""The size of a config is that of its model; a variant that breaks the contract is refused."""

import random

import pytest

from sweeper.store import registry
from sweeper.store.errors import UserError
from tasks.config.architecture import variant
from tasks.lm1b.task import LanguageModel
from tasks.parse import parse, task_of
from tasks.size_server import attention_contract
from tasks.size_server.sizes import BUILT_FIRST, CountPolynomials, counts, size
from tests.tasks.jobs import SMALL, config


def test_a_task_whose_outputs_read_the_labels_is_refused(monkeypatch):
    def outputs(self, model, batch):
        return model.logits(model(batch["tokens"], batch["targets"], batch["positions"]))

    monkeypatch.setattr(LanguageModel, "outputs", outputs)
    with pytest.raises(UserError, match=r"task\.name=lm1b: expected outputs that read no labels"):
        size(config())


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_it_counts_what_training_would_train(tied):
    tree = config({"model.tie_embeddings": tied})
    counted = size(tree)
    model = task_of(parse(tree)).build()
    assert counted["params_total"] == sum(p.numel() for p in model.parameters())
    assert counted["params_embedding"] == 307 * 17 * (1 if tied else 2)
    assert counted["params_total"] == sum(
        counted[key] for key in ("params_embedding", "params_non_embedding")
    )
    assert (counted["head_size"], counted["width"]) == (5, 15)


def test_training_flops_are_six_for_each_weight_and_the_attention_in_full():
    layers, d, w, f, v, t = 2, 17, 15, 23, 307, 31
    matrices = layers * (4 * d * w + 2 * d * f) + v * d
    attention = layers * 2 * t * w  # scores and weighted sums, each position with all of its row
    assert size(config())["flops_per_token"] == 6 * (matrices + attention)


def test_heads_of_several_sizes_have_a_width_and_no_head_size():
    found = size(config({"model.head_size": [[2, 3, 5], 7]}))
    assert "head_size" not in found
    assert found["width"] == (2 + 3 + 5 + 3 * 7) // 2
    plain = size(config({"model.head_size": 1}))
    extra = 4 * 17 * (2 + 3 + 5 + 3 * 7 - 2 * 3)
    assert found["params_total"] == plain["params_total"] + extra


@pytest.mark.parametrize("head_size", [[5, 5], [5, [5, 5, 5]]])
def test_a_list_of_one_size_is_that_size(head_size):
    assert size(config({"model.head_size": head_size})) == size(config())


CASES = [  # a decoder, encoders, and variants that count in a way of their own
    ("lm1b", {"name": "multi_head"}),
    ("squad", {"name": "multi_head"}),
    ("pretraining", {"name": "collaborative", "shared_size": None}),
    ("lm1b", {"name": "grouped_query", "key_value_heads": 4}),
    ("lm1b", {"name": "latent", "latent_size": 12, "query_latent_size": 7, "value_size": 5}),
]
HELD_OUT = 2


def shaped(task, attention, rng):
    changed = config(SMALL[task])
    heads, heuristic = rng.randint(1, 24), rng.random() < 0.3
    heads *= attention.get("key_value_heads", 1)
    changed["model"] |= {
        "layers": 1,
        "attention": attention,
        "heads": heads,
        "head_size": None if heuristic else rng.randint(1, 99),
        "embedding_size": heads * rng.randint(1, 20) if heuristic else rng.randint(1, 300),
        "feedforward_size": rng.randint(1, 900),
    }
    return changed


@pytest.mark.parametrize(("task", "attention"), CASES, ids=str)
def test_what_polynomials_says_is_what_a_build_says(task, attention):
    rng, built = random.Random(f"{task} {attention}"), []

    def build(run):
        built.append(run)
        return counts(run)

    polynomials = CountPolynomials(build)
    for _ in range(BUILT_FIRST):
        size(shaped(task, attention, rng), polynomials.counts)
    for _ in range(HELD_OUT):
        one = shaped(task, attention, rng)
        assert size(one, polynomials.counts) == size(one)
    assert len(built) <= 2 * BUILT_FIRST  # else the held-out ones were built, and nothing is shown


def test_counts_that_are_no_such_polynomial_are_always_built():
    """A branch on the shape, as a variant may have: a build that was there first gives it away."""
    polynomials = CountPolynomials(lambda run: {"n": 3 * (run.model.feedforward_size > 20)})
    for feedforward in [*range(1, BUILT_FIRST + 1), 97, 20, 21]:
        run = parse(config({"model.feedforward_size": feedforward}))
        assert polynomials.counts(run) == {"n": 3 * (feedforward > 20)}


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
        "k, v = k[:, :1], v[:, :1]; "
        "context = F.scaled_dot_product_attention(q, k, v, mask_B1TT, enable_gqa=True)",
    ],
    ids=["keywords", "own softmax", "positions", "shared keys"],
)
def test_a_variant_that_keeps_it_has_a_size(installed, attend):
    found = planned(installed, VARIANT.format(signature=SIGNATURE, attend=attend))
    assert found["params_attention"] == 2 * (17 * 45 + 45 + 15 * 17 + 17)


def test_its_own_options_are_those_of_its_constructor(installed):
    source = VARIANT.format(signature=f"{SIGNATURE}, rank: int", attend=ATTEND)
    with pytest.raises(UserError, match=r"attention\.rank=\(missing\): expected a whole number"):
        planned(installed, source)
    assert size(config({"model.attention": {"name": "mine", "rank": 5}}))


PEEKS = f"{ATTEND}; context = context + v.roll(-1, 2)"
BATCH = f"{ATTEND}; context = context + context.mean(0, keepdim=True)"
MODES = f"{ATTEND}; context = context * (0.9 if self.training else 1.0)"
BREACHES = {
    "no keywords": (
        {"signature": "self, embedding_size, heads, head_size"},
        "Variant(embedding_siz",
    ),
    "two sizes": ({"signature": "self, heads, head_size, *, bias, dropout"}, "Variant(embedding_s"),
    "untyped": ({"signature": f"{SIGNATURE}, rank=3"}, "a type for its option rank"),
    "shapes": ("context = q @ k", "but it raised RuntimeError"),
    "positions": ("context = v[..., :1, :]", "but it returned (1, 1, 17)"),
    "not on meta": (f"{ATTEND}.numpy()", "but it raised "),
    "no batch": (
        "context = F.scaled_dot_product_attention(q[0], k[0], v[0])[None]",
        "queries and keys are to be (B, H, T, P)",
    ),
    "no mask": ("context = F.scaled_dot_product_attention(q, k, v)", "position 1 changes the"),
    "across segments": (
        "context = F.scaled_dot_product_attention(q, k, v, is_causal=True)",
        "position 0 changes the output at position 4 under a causal mask",
    ),
    "next position": (PEEKS, "position 1 changes the output at position 0 under a causal mask"),
    "from padding": (
        f"{ATTEND}; context[:, :, 8:] += context[:, :, :1]",
        "position 0 changes the output at position 8",
    ),
    "other rows": (BATCH, "not to depend on the other rows of its batch, but they do"),
    "modes": (MODES, "equal outputs in training and in evaluation without dropout"),
    "unused": (f"{ATTEND}; context = context.detach()", "but qkv.weight receives none"),
    "not a number": (f"{ATTEND}; context = context / 0 * 0", "changes the output"),
}


@pytest.mark.parametrize(("breach", "told"), BREACHES.values(), ids=BREACHES)
def test_a_variant_that_breaks_it_is_one_sentence(installed, breach, told):
    changes = breach if isinstance(breach, dict) else {"attend": breach}
    source = VARIANT.format(**{"signature": SIGNATURE, "attend": ATTEND, **changes})
    with pytest.raises(UserError) as caught:
        planned(installed, source)
    sentence = str(caught.value)
    assert sentence.startswith("model.attention.name=mine: expected ")
    assert told in sentence
    assert sentence.endswith("; mend its code.") or "signature" in changes
    assert "\n" not in sentence


ROTARY = {"model.position_encoding": "rotary", "model.rotary_size": 2}


def test_a_variant_turns_queries_and_keys_or_is_refused_under_rotary_positions(installed):
    mine = {"model.attention": {"name": "mine"}, "model.head_size": 4, **ROTARY}
    source = VARIANT.format(signature=SIGNATURE, attend=ATTEND)
    attention_contract._checked.clear()
    installed("mine", source, {"headroom.attention": "mine = mine"})
    with pytest.raises(UserError, match=r"name=mine: expected a variant that takes a rotation"):
        size(config(mine))
    takes = source.replace("mask_B1TT=None):", "mask_B1TT=None, rotation=None):")
    takes = takes.replace("super().__init__()", "super().__init__()\n        self.rotary_size = 4")
    installed("ignores", takes, {"headroom.attention": "ignores = ignores"})
    with pytest.raises(UserError, match="depend on the rotation, but they are the same without it"):
        size(config({**mine, "model.attention": {"name": "ignores"}}))
    turned = "q, k = (x.transpose(1, 2) for x in (q, k))\n        if rotation:\n"
    turned += "            q, k = rotation(q, 4), rotation(k, 4)\n"
    turned += "        q, k = (x.transpose(1, 2) for x in (q, k))\n        context ="
    installed("turns", takes.replace("context =", turned), {"headroom.attention": "turns = turns"})
    assert size(config({**mine, "model.attention": {"name": "turns"}}))


def test_each_shape_is_checked_and_a_refused_value_is_the_users(installed):
    signature = f"{SIGNATURE}, groups: int = 4"
    refuses = "if heads % groups: raise ValueError(f'{heads} heads in {groups} groups')"
    source = VARIANT.format(signature=signature, attend=ATTEND)
    source = source.replace("super().__init__()", f"super().__init__()\n        {refuses}")
    attention_contract._checked.clear()
    installed("mine", source, {"headroom.attention": "mine = mine"})
    mine = {"model.attention": {"name": "mine"}, "model.heads": 8}
    assert size(config(mine))
    with pytest.raises(UserError) as caught:
        size(config({**mine, "model.heads": 6}))
    told = "heads=6, head_size=5, groups=4 (6 heads in 4 groups); choose other sizes or options."
    assert str(caught.value).endswith(told)
    with pytest.raises(UserError, match=r"heads=1, head_size=5, groups=4 \(1 heads in 4 groups\)"):
        size(config({**mine, "model.head_size": [[5] + 7 * [3]] * 2}))


@pytest.mark.parametrize("name", registry.names(registry.ATTENTION))
@pytest.mark.parametrize("sizes", [(16, 2, 8), (12, 3, 5), (10, 1, 16)], ids=str)
def test_our_own_variants_keep_it(name, sizes):
    assert attention_contract.behaviour_fault(variant(name), *sizes) is None
