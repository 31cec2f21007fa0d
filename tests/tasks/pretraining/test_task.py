"""Tests of pre-training: BERT's sizes, schedule, batches and loss, and continuing a killed job."""

from statistics import mean

import pytest
import torch
import torch.nn.functional as F

from models.cross_entropy import IGNORED
from models.measure import parameter_counts
from tasks.size_server.sizes import size
from tests.tasks.jobs import config
from tests.tasks.small import PRETRAINING, evaluated, made, opened

# The first and the last row of each table of the paper: embedding size, heads, head size,
# feed-forward size and the exact number of parameters, which is linear in heads and in head size.
PUBLISHED = [
    # Table 1.
    (1024, 8, None, 4096, 336_226_108),
    (1024, 32, None, 4096, 336_226_108),
    # Table 2A.
    (512, 8, 128, 4096, 167_690_044),
    (512, 32, 128, 4096, 318_906_172),
    # Table 2B.
    (512, 8, 32, 4096, 129_886_012),
    (512, 8, 256, 4096, 218_095_420),
    # Table 3.
    (768, 8, 128, 3072, 214_053_692),
    (768, 20, 128, 3072, 327_410_492),
]


@pytest.mark.parametrize(
    ("embedding_size", "heads", "head_size", "feedforward_size", "parameters"),
    PUBLISHED,
)
def test_the_papers_models_have_the_papers_parameters(
    embedding_size, heads, head_size, feedforward_size, parameters
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
    with torch.device("meta"):
        found = parameter_counts(made({**PRETRAINING, **changes}).model)
    assert found["params_total"] == parameters
    assert found["params_embedding"] == (30_522 + 512 + 2) * embedding_size


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
        ours = list(opened(shared, PRETRAINING).data.batches(split))
        theirs = list(opened(shared, {**PRETRAINING, **changes}).data.batches(split))
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert all(torch.equal(one[key], other[key]) for key in one)
        rows = torch.cat([batch["tokens"] for batch in ours])
        assert len(torch.unique(rows, dim=0)) == len(rows)


def hidden_of(model, batch):
    return model(batch["tokens"], batch["token_type_ids"], batch["attention_mask"])


def test_metrics_are_exact_over_a_split(shared):
    task = opened(shared, PRETRAINING)
    model = task.model.eval().requires_grad_(False)
    tokens, next_right, random_next = [], [], []
    for batch in task.data.batches("test"):
        hidden_BTD = hidden_of(model, batch)
        logits_BMV = model.token_logits(hidden_BTD, batch["places"])
        chosen_BM = batch["targets"] != IGNORED
        tokens += zip(logits_BMV[chosen_BM], batch["targets"][chosen_BM], strict=True)
        guesses_B = model.next_logits(hidden_BTD).argmax(-1)
        next_right += (guesses_B == batch["next"]).tolist()
        random_next += batch["next"].tolist()
    nats = [float(F.cross_entropy(logits_V, target)) for logits_V, target in tokens]
    right = [bool(logits_V.argmax() == target) for logits_V, target in tokens]
    metrics = evaluated(task)
    assert metrics["test/mlm_loss"] == pytest.approx(mean(nats), rel=1e-4)
    assert metrics["test/mlm_accuracy"] == pytest.approx(mean(right))
    assert metrics["test/nsp_accuracy"] == pytest.approx(mean(next_right))
    majority = max(mean(random_next), 1 - mean(random_next))
    assert metrics["test/majority_nsp_accuracy"] == pytest.approx(majority)
    parts = metrics["test/mlm_loss"] + metrics["test/nsp_loss"]
    assert metrics["test/loss"] == pytest.approx(parts)


def test_the_loss_is_the_mean_over_hidden_pieces_plus_the_mean_over_pairs(shared):
    task = opened(shared, PRETRAINING)
    model = task.model.eval().requires_grad_(False)
    batch = task.data.batch(1)
    hidden_BTD = hidden_of(model, batch)
    every_BT = torch.arange(hidden_BTD.shape[1]).expand(len(hidden_BTD), -1)
    logs_BTV = model.token_logits(hidden_BTD, every_BT).double().log_softmax(-1)
    places_BM, targets_BM = batch["places"], batch["targets"]
    nats = [
        -float(logs_BTV[row, places_BM[row, number], targets_BM[row, number]])
        for row, number in (targets_BM != IGNORED).nonzero().tolist()
    ]
    pairs = F.cross_entropy(model.next_logits(hidden_BTD), batch["next"])
    expected = mean(nats) + float(pairs)
    assert float(task.training_step(batch, 0)) == pytest.approx(expected, rel=1e-5)
