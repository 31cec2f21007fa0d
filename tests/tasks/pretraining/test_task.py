"""Tests of pre-training: BERT's sizes, schedule, batches and loss, and continuing a killed job."""

import pytest
import torch
import torch.nn.functional as F

from models.cross_entropy import IGNORED
from models.measure import parameter_counts
from tasks.size_server.sizes import size
from tests.models.conftest import assert_same
from tests.tasks.jobs import config
from tests.tasks.small import PRETRAINING, evaluated, made, opened

SIZES = "embedding_size heads head_size feedforward_size".split()
# Rows of the paper's tables: SIZES, and the exact number of parameters, which is linear in heads
# and in head size.
PUBLISHED = [
    (1024, 32, None, 4096, 336_226_108),  # Table 1
    (512, 8, 128, 4096, 167_690_044),  # Table 2A
    (512, 32, 128, 4096, 318_906_172),
    (512, 8, 32, 4096, 129_886_012),  # Table 2B
    (768, 20, 128, 3072, 327_410_492),  # Table 3
]


@pytest.mark.parametrize("row", PUBLISHED)
def test_the_papers_models_have_the_papers_parameters(row):
    *sizes, parameters = row
    changes = {f"model.{key}": size for key, size in zip(SIZES, sizes, strict=True)}
    changes |= {"task.vocabulary_size": 30_522, "model.layers": 24}
    changes["model.positions"] = 512
    with torch.device("meta"):
        found = parameter_counts(made({**PRETRAINING, **changes}).model)
    assert found["params_total"] == parameters
    assert found["params_embedding"] == (30_522 + 512 + 2) * sizes[0]


def test_the_cost_of_a_position_is_three_times_every_product_of_a_forward_pass():
    # Two operations per multiplication; D=17, W=15, F=23, V=307, T=43, of which 7 are predicted.
    block = 4 * 17 * 15 + 2 * 17 * 23 + 2 * 43 * 15
    heads = 7 * (17 * 17 + 17 * 307) + 17 * 17 + 17 * 2
    expected = 3 * 2 * (2 * 43 * block + heads) // 43
    assert size(config(PRETRAINING))["flops_per_token"] == expected


def test_each_phase_warms_up_and_ends_near_zero():
    task = made({**PRETRAINING, "optimizer.schedule": "linear"})
    rates = [task.learning_rate(step) for step in range(1, 20)]
    # 14 steps with a warm-up of 3, then 5 with a warm-up of 2. Each would reach 0 one step later.
    first = [1 / 3, 2 / 3, *((15 - step) / 12 for step in range(3, 15))]
    second = [1 / 2, 1, 3 / 4, 2 / 4, 1 / 4]
    assert rates == pytest.approx([0.01 * share for share in first + second])


def test_every_run_is_measured_on_the_same_rows_each_once(shared):
    changes = {"seed": 11, "task.batch_tokens": 5 * 43, "task.second_phase.steps": 0}
    for split in ("validation", "test"):
        ours, theirs = (
            list(opened(shared, {**PRETRAINING, **one}).data.batches(split))
            for one in ({}, changes)
        )
        assert_same(ours, theirs, 0)
        rows = torch.cat([batch["tokens"] for batch in ours])
        assert len(torch.unique(rows, dim=0)) == len(rows)


def answers(model, batch):
    """Return the logits and targets of the hidden pieces, then those of the pairs."""
    hidden_BTD = model(
        batch["tokens"], batch["token_type_ids"], batch["attention_mask"]
    )
    logits_BMV = model.token_logits(hidden_BTD, batch["places"])
    hidden_BM = batch["targets"] != IGNORED
    pieces = logits_BMV[hidden_BM], batch["targets"][hidden_BM]
    return *pieces, model.next_logits(hidden_BTD), batch["next"]


def test_metrics_are_exact_over_a_split(shared):
    task = opened(shared, PRETRAINING)
    model = task.model.eval().requires_grad_(False)
    model.masked_tokens.bias[52] += 9  # a piece that is hidden in several places
    found = [answers(model, batch) for batch in task.data.batches("test")]
    logits_NV, targets_N, pairs_B2, next_B = map(torch.cat, zip(*found, strict=True))
    expected = {
        "test/majority_nsp_accuracy": int(next_B.bincount().max()) / len(next_B)
    }
    both = {"mlm": (logits_NV, targets_N), "nsp": (pairs_B2, next_B)}
    for name, (logits, targets) in both.items():
        right = logits.argmax(-1) == targets
        expected[f"test/{name}_accuracy"] = float(right.double().mean())
        expected[f"test/{name}_loss"] = float(F.cross_entropy(logits, targets))
    assert expected["test/mlm_accuracy"] > 0
    expected["test/loss"] = expected["test/mlm_loss"] + expected["test/nsp_loss"]
    assert evaluated(task) == pytest.approx(expected, rel=1e-4)


def test_the_loss_is_the_mean_over_hidden_pieces_plus_the_mean_over_pairs(shared):
    """tests/models/test_encoder.py tests that the logits are those of the hidden places."""
    task = opened(shared, PRETRAINING)
    batch = task.data.batch(1)
    logits_NV, targets_N, pairs_B2, next_B = answers(task.model.eval(), batch)
    expected = F.cross_entropy(logits_NV, targets_N) + F.cross_entropy(pairs_B2, next_B)
    torch.testing.assert_close(task.training_step(batch, 0), expected)
