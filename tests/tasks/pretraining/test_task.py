"""Pre-training: BERT's batches and loss, what is measured, and that a killed job loses nothing."""

import shutil

import pytest
import torch
import torch.nn.functional as F

from models.cross_entropy import IGNORED
from tasks.parse import parse
from tasks.prepare import prepare, task_of
from tasks.pretraining.data import MaskedDocuments
from tasks.pretraining.task import Pretraining
from tasks.seeds import derive
from tasks.task import Evaluator
from tasks.text.tokenizer import BERT_MARKS, load_tokenizer
from tasks.training.module import summed
from tests.tasks.jobs import at_call, freeze, kill_self, run_job, science
from tests.tasks.pretraining_job import SMALL, small

CPU = Evaluator(torch.device("cpu"), "32-true")
CLS, SEP = (BERT_MARKS.index(mark) for mark in ("[CLS]", "[SEP]"))


@pytest.fixture(scope="module")
def outputs(_ready_to_fork, tmp_path_factory):
    outputs = tmp_path_factory.mktemp("pretraining")
    prepare(task_of(parse(small())), outputs)
    return outputs


def opened(outputs, changes={}):  # noqa: B006
    task = Pretraining(parse(small(changes)))
    task.data.open(outputs / "data" / task.data.folder_name())
    return task


def test_a_batch_is_rows_of_pairs_with_pieces_hidden(outputs):
    task = opened(outputs)
    for step in (1, 2, 14, 15, 19):
        length, rows = (43, 3) if step <= 14 else (67, 2)
        batch = task.data.batch(step)
        tokens, real = batch["tokens"], batch["attention_mask"]
        assert tokens.shape == batch["token_type_ids"].shape == real.shape == (rows, length)
        assert torch.equal(tokens[:, 0], torch.full((rows,), CLS))
        assert ((tokens == SEP).sum(1) == 2).all()
        assert (tokens[~real] == 0).all()
        targets, hidden = batch["targets"], batch["targets"] != IGNORED
        assert (targets[hidden] >= len(BERT_MARKS)).all()
        assert hidden.any(dim=1).all()
        seen = tokens.gather(1, batch["places"])
        assert {CLS, SEP, 0}.isdisjoint(seen[hidden].tolist())
        assert ((batch["next"] == 0) | (batch["next"] == 1)).all()


def test_the_pieces_of_a_row_are_sentences_of_the_text(outputs):
    task = opened(outputs)
    tokenizer = load_tokenizer(outputs / "data" / task.data.folder_name() / "tokenizer.json")
    batch = task.data.batch(1)
    restored = batch["tokens"].clone()
    for row in range(3):
        hidden = batch["targets"][row] != IGNORED
        restored[row, batch["places"][row][hidden]] = batch["targets"][row][hidden]
    text = "\n".join(tokenizer.decode(row.tolist()) for row in restored)
    sample = outputs / "data" / task.data.folder_name() / "sample"
    told = (sample / "documents.txt").read_text().lower()
    words = text.replace(".", " ").split()
    assert len(words) > 40
    assert sum(word in told.replace(".", " ").split() for word in words) > 0.9 * len(words)


def test_a_batch_is_a_function_of_seed_and_step(outputs):
    task, again, other = opened(outputs), opened(outputs), opened(outputs, {"seed": 4})
    for step in (19, 13, 2, 1):
        batch, same = task.data.batch(step), again.data.batch(step)
        assert all(torch.equal(batch[key], same[key]) for key in batch)
        assert not torch.equal(batch["tokens"], other.data.batch(step)["tokens"])


def test_masks_pairs_and_labels_are_drawn_anew_in_every_epoch(outputs):
    task = opened(outputs, {"task.batch_tokens": 43, "trainer.steps": 100_000})
    epoch = task.data.open(outputs / "data" / task.data.folder_name())["rows_per_epoch"]
    epochs = [
        {tuple(task.data.batch(e * epoch + row + 1)["tokens"][0].tolist()) for row in range(epoch)}
        for e in range(2)
    ]
    assert len(epochs[0]) > 0.9 * epoch
    assert len(epochs[0] & epochs[1]) < 0.05 * epoch


def test_every_run_is_measured_on_the_same_rows_each_once(outputs):
    changes = {"seed": 11, "task.batch_tokens": 5 * 43, "task.second_phase.steps": 0}
    for split in ("validation", "test"):
        ours = list(opened(outputs).data.batches(split))
        theirs = list(opened(outputs, changes).data.batches(split))
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            assert all(torch.equal(one[key], other[key]) for key in one)
        rows = torch.cat([batch["tokens"] for batch in ours])
        assert len(torch.unique(rows, dim=0)) == len(rows)


def test_the_loss_is_the_mean_over_hidden_pieces_plus_the_mean_over_pairs(outputs):
    task = opened(outputs)
    torch.manual_seed(5)
    model = task.build().eval().requires_grad_(False)
    batch = task.data.batch(1)
    hidden_BTD = model(batch["tokens"], batch["token_type_ids"], batch["attention_mask"])
    nats = [
        -float(
            model.token_logits(hidden_BTD, torch.full((3, 1), place))[row, 0]
            .double()
            .log_softmax(-1)[target]
        )
        for row in range(3)
        for place, target in zip(
            batch["places"][row].tolist(), batch["targets"][row].tolist(), strict=True
        )
        if target != IGNORED
    ]
    pairs = F.cross_entropy(model.next_logits(hidden_BTD), batch["next"])
    expected = sum(nats) / len(nats) + float(pairs)
    assert float(summed(task.loss(model, batch))) == pytest.approx(expected, rel=1e-5)


def test_metrics_are_exact_over_a_split(outputs):
    task = opened(outputs)
    torch.manual_seed(5)
    model = task.build()
    nats = right = masked = rows = next_right = 0.0
    with torch.no_grad():
        for batch in task.data.batches("test"):
            model.eval()
            hidden_BTD = model(batch["tokens"], batch["token_type_ids"], batch["attention_mask"])
            logits_BMV = model.token_logits(hidden_BTD, batch["places"])
            chosen = batch["targets"] != IGNORED
            nats += float(
                F.cross_entropy(logits_BMV[chosen], batch["targets"][chosen]) * chosen.sum()
            )
            right += float((logits_BMV.argmax(-1) == batch["targets"])[chosen].sum())
            masked += float(chosen.sum())
            next_right += float((model.next_logits(hidden_BTD).argmax(-1) == batch["next"]).sum())
            rows += len(chosen)
    metrics = task.evaluate(model, "test", CPU)
    assert metrics["test/mlm_loss"] == pytest.approx(nats / masked, rel=1e-4)
    assert metrics["test/mlm_accuracy"] == pytest.approx(right / masked)
    assert metrics["test/nsp_accuracy"] == pytest.approx(next_right / rows)
    assert metrics["test/loss"] == pytest.approx(
        metrics["test/mlm_loss"] + metrics["test/nsp_loss"]
    )


def test_positions_seen_are_those_of_the_batches(outputs):
    task = opened(outputs)
    seen = 0
    for step in range(1, 20):
        seen += task.positions(task.data.batch(step))
        assert task.data.tokens_seen(step) == seen


def test_a_second_phase_of_no_steps_asks_for_nothing(outputs):
    task = opened(outputs, {"task.second_phase.steps": 0, "model.positions": 43})
    assert task.data.batch(19)["tokens"].shape == (3, 43)
    assert task.data.tokens_seen(19) == 19 * 129


def test_an_encoder_learns(outputs):
    changes = {"task.batch_tokens": 23 * 43, "task.second_phase.steps": 0, "model.dropout": 0.0}
    task = opened(outputs, {**changes, "trainer.steps": 60})
    torch.manual_seed(derive(0, "weights"))
    model = task.build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
    before = task.evaluate(model, "test", CPU)
    for step in range(1, 61):
        optimizer.zero_grad()
        summed(task.loss(model, task.data.batch(step))).backward()
        optimizer.step()
    after = task.evaluate(model, "test", CPU)
    assert after["test/mlm_loss"] < before["test/mlm_loss"] - 1
    assert after["test/mlm_accuracy"] > before["test/mlm_accuracy"]


@pytest.fixture
def own(outputs, tmp_path):
    """An outputs folder of the test's own with the prepared data."""
    shutil.copytree(outputs / "data", tmp_path / "outputs" / "data")
    return tmp_path / "outputs"


@pytest.mark.parametrize("step", [7, 14, 15, 18])
def test_a_job_killed_in_either_phase_ends_with_the_same_bits(step, own):
    whole = freeze(own, SMALL, "whole")
    broken = freeze(own, SMALL, "broken")
    assert run_job(whole) == 0
    assert run_job(broken, lambda: at_call(MaskedDocuments, "batch", step, kill_self)) == -9
    assert run_job(broken) == 0
    assert science(broken) == science(whole)
    assert set(science(whole)["metrics"]) == set(Pretraining.measured)
