"""The size of a config is exact, whether its model is built or its counts are interpolated."""

import random

import pytest

from tasks.lm1b.task import LanguageModel
from tasks.parse import module_of, parse
from tasks.size_server.sizes import BUILT_FIRST, CountPolynomials, counts, size
from tests.refusals import refusal
from tests.tasks.jobs import config
from tests.tasks.small import SMALL


def test_a_task_whose_forward_pass_reads_the_labels_is_refused(monkeypatch):
    def forward(self, batch):
        hidden_BTD = self.model(batch["tokens"], batch["targets"], batch["positions"])
        return self.model.logits(hidden_BTD)

    monkeypatch.setattr(LanguageModel, "forward", forward)
    assert "task.name=lm1b: expected a task whose forward pass reads no" in refusal(
        size, config()
    )


@pytest.mark.parametrize("tied", [True, False])
def test_it_counts_what_training_would_train(tied):
    tree = config({"model.tie_embeddings": tied})
    counted = size(tree)
    model = module_of(parse(tree)).model
    assert counted["params_total"] == sum(p.numel() for p in model.parameters())
    assert counted["params_embedding"] == 307 * 17 * (1 if tied else 2)


LATENT = {"name": "latent", "latent_size": 12, "query_latent_size": 7, "value_size": 5}


TURNED = {"model.attention": {**LATENT, "rotary_size": 4}}


@pytest.mark.parametrize(
    ("head_size", "changes", "width"),
    [
        (5, {}, 15),
        ([[2, 3, 5], 7], {}, (2 + 3 + 5 + 3 * 7) / 2),
        (5, TURNED, 15 + 3 * 4),  # with the rotary part of each head
        ([5, 7], TURNED, 18 + 3 * 4),
    ],
)
def test_width_is_a_mean_over_layers_and_several_sizes_are_no_head_size(
    head_size, changes, width
):
    found = size(config({"model.head_size": head_size, **changes}))
    assert found["width"] == width
    assert found.get("head_size") == (5 if head_size == 5 else None)


# Every task on text, and every variant with its own formula for counts.
CASES = [
    ("lm1b", LATENT),
    ("pretraining", {"name": "collaborative", "shared_size": None}),
    pytest.param("lm1b", {"name": "multi_head"}, marks=pytest.mark.slow),
    pytest.param(
        "mnli", {"name": "grouped_query", "key_value_heads": 4}, marks=pytest.mark.slow
    ),
    pytest.param(
        "squad", {"name": "collaborative", "shared_size": 7}, marks=pytest.mark.slow
    ),
]


def shaped(task, attention, rng):
    changed = config(SMALL[task])
    heads, heuristic = rng.randint(1, 24), rng.random() < 0.3
    heads *= attention.get("key_value_heads", 1)
    changed["model"] |= {
        "layers": 1,
        "attention": attention,
        "heads": heads,
        "head_size": None if heuristic else rng.randint(1, 99),
        "embedding_size": heads * rng.randint(1, 20)
        if heuristic
        else rng.randint(1, 300),
        "feedforward_size": rng.randint(1, 900),
    }
    return parse(changed)


@pytest.mark.parametrize(("task", "attention"), CASES, ids=str)
def test_what_polynomials_says_is_what_a_build_says(task, attention):
    rng, built = random.Random(f"{task} {attention}"), []

    def build(run):
        built.append(run)
        return counts(run)

    polynomials = CountPolynomials(build)
    for _ in range(BUILT_FIRST):
        polynomials.counts(shaped(task, attention, rng))
    for _ in range(3):
        one = shaped(task, attention, rng)
        assert polynomials.counts(one) == counts(one)
    # Otherwise the held-out models were built too, and this test would compare builds with builds.
    assert len(built) <= 2 * BUILT_FIRST + 1


FEW = [(size, n) for size in (8, 16, 32, 40) for n in range(1, BUILT_FIRST + 2)]
JUMPED = [(5, n) for n in [*range(1, BUILT_FIRST + 1), 97, 20, 21]]


@pytest.mark.parametrize(
    ("count", "sizes"),
    [
        (lambda m: m.heads * m.head_size**2, FEW),
        (lambda m: m.head_size // 3, FEW),
        # Models that were built before the fit reveal the jump.
        (lambda m: 3 * (m.feedforward_size > 20), JUMPED),
    ],
)
def test_counts_that_few_models_do_not_tell_from_a_polynomial_are_exact(count, sizes):
    polynomials = CountPolynomials(lambda run: {"n": count(run.model)})
    for head_size, feedforward in sizes:
        changes = {"model.head_size": head_size, "model.feedforward_size": feedforward}
        run = parse(config(changes))
        assert polynomials.counts(run) == {"n": count(run.model)}
