"""What a pre-training's config says: the paper's sizes, its cost, its schedule, its limits."""

import pytest
import torch

from sweeper.store.errors import UserError
from tasks.parse import parse
from tasks.pretraining.task import Pretraining
from tasks.size_server.sizes import size
from tests.tasks.pretraining_job import small

# Table, embedding size, heads, head size, feed-forward size, parameters (reproduced to the unit).
PUBLISHED = [
    *(("1", 1024, heads, None, 4096, 336_226_108) for heads in (8, 16, 32)),
    ("2A", 512, 8, 128, 4096, 167_690_044),
    ("2A", 512, 12, 128, 4096, 192_892_732),
    ("2A", 512, 16, 128, 4096, 218_095_420),
    ("2A", 512, 32, 128, 4096, 318_906_172),
    ("2B", 512, 8, 32, 4096, 129_886_012),
    ("2B", 512, 8, 64, 4096, 142_487_356),
    ("2B", 512, 8, 128, 4096, 167_690_044),
    ("2B", 512, 8, 256, 4096, 218_095_420),
    ("3", 768, 8, 128, 3072, 214_053_692),
    ("3", 768, 12, 128, 3072, 251_839_292),
    ("3", 768, 16, 128, 3072, 289_624_892),
    ("3", 768, 20, 128, 3072, 327_410_492),
]


@pytest.mark.parametrize(
    ("table", "embedding_size", "heads", "head_size", "feedforward_size", "parameters"),
    PUBLISHED,
    ids=[f"table {t}, d={d} h={h} d_p={p}" for t, d, h, p, *_ in PUBLISHED],
)
def test_the_papers_models_have_the_papers_parameters(
    table, embedding_size, heads, head_size, feedforward_size, parameters
):
    changes = {
        "task.vocabulary_size": 30_522,
        "model.layers": 24,
        "model.positions": 512,
        "model.embedding_size": embedding_size,
        "model.heads": heads,
        "model.head_size": head_size,
        "model.feedforward_size": feedforward_size,
    }
    found = size(small(changes))
    assert found["params_total"] == parameters
    assert found["params_embedding"] == (30_522 + 512 + 2) * embedding_size


def test_the_cost_of_a_position_is_three_times_every_product_of_a_forward_pass():
    # Two operations a multiplication; D=17, W=15, F=23, V=307, T=43, 7 of them predicted.
    block = 4 * 17 * 15 + 2 * 17 * 23 + 2 * 43 * 15
    heads = 7 * (17 * 17 + 17 * 307) + 17 * 17 + 17 * 2
    assert size(small())["flops_per_token"] == 3 * 2 * (2 * 43 * block + heads) // 43


def test_each_phase_warms_up_and_ends_near_zero():
    task = Pretraining(parse(small()))
    rates = [task.learning_rate(step) for step in range(1, 20)]
    # 14 steps with a warm-up of 3, then 5 with one of 2; a step after the last would be 0.
    first = [0.01 * s / 3 for s in (1, 2, 3)] + [0.01 * (15 - s) / 12 for s in range(4, 15)]
    second = [0.01 * s / 2 for s in (1, 2)] + [0.01 * (6 - s) / 4 for s in (3, 4, 5)]
    assert rates == pytest.approx(first + second)


def test_fresh_weights_have_the_deviation_that_was_asked_for():
    changes = {"model.embedding_size": 211, "model.feedforward_size": 223}
    torch.manual_seed(5)
    wide = Pretraining(parse(small({**changes, "model.initializer_range": 0.1}))).build()
    wide.requires_grad_(False)
    torch.manual_seed(5)
    berts = Pretraining(parse(small({**changes, "model.initializer_range": 0.02}))).build()
    berts.requires_grad_(False)
    for (name, one), other in zip(wide.named_parameters(), berts.parameters(), strict=True):
        if one.ndim >= 2:
            # Drawn within two deviations, a normal keeps 0.88 of its own.
            assert float(other.std()) == pytest.approx(0.88 * 0.02, rel=0.1), name
            assert torch.allclose(one, 5 * other)
        else:
            assert torch.equal(one, other), name


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"task.second_phase.steps": 19}, "task.second_phase.steps=19: expected fewer than"),
        ({"optimizer.warmup_steps": 14}, "optimizer.warmup_steps=14: expected fewer than"),
        ({"task.second_phase.warmup_steps": 5}, "task.second_phase.warmup_steps=5: expected"),
        ({"task.second_phase.batch_tokens": 66}, "task.second_phase.batch_tokens=66: expected"),
        ({"task.batch_tokens": 44}, "task.batch_tokens=44: expected a multiple of"),
        ({"model.positions": 66}, "model.positions=66: expected at least the 67"),
        ({"model.tie_embeddings": False}, "model.tie_embeddings=false: expected true"),
        ({"model.initializer_range": 0.0}, "model.initializer_range=0.0: expected a number"),
        ({"task.documents": "page"}, "task.documents=page: expected one of blank_line, file"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_config_that_cannot_be_run_is_one_sentence_at_plan_time(changes, sentence):
    with pytest.raises(UserError, match="^" + sentence.replace(".", r"\.")):
        size(small(changes))
