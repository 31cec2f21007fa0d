"""Tests of the language-model task: its metrics count every token of a split exactly once."""

import math

import pytest
import torch
import torch.nn.functional as F

from tasks.lm1b.ngrams import ORDERS
from tasks.lm1b.task import LanguageModel
from tests.refusals import refusal
from tests.tasks.jobs import ended, write_corpus
from tests.tasks.small import evaluated, opened, opened_data

# The perplexities of n-gram models, which the task reports with the metrics of the model.
NGRAMS = {f"test/{name}_perplexity" for name in ORDERS}


def test_the_loss_of_a_split_is_the_mean_over_its_pieces_not_over_its_batches(prepared):
    task = opened(prepared)
    model = task.model.eval()
    nats = pieces = 0
    for batch in task.data.batches("test"):
        hidden_BTD = model(batch["tokens"], batch["segments"], batch["positions"])
        real_BT = batch["segments"] > 0
        logits_NV = model.logits(hidden_BTD).detach().double()[real_BT]
        targets_N = batch["targets"][real_BT]
        nats += float(F.cross_entropy(logits_NV, targets_N, reduction="sum"))
        pieces += len(targets_N)
    metrics = evaluated(task)
    assert metrics["test/loss"] == pytest.approx(nats / pieces, rel=1e-5)
    assert metrics["test/perplexity"] == pytest.approx(
        math.exp(nats / pieces), rel=1e-4
    )
    assert pieces == task.data.splits["test"].about["tokens"]


def test_perplexity_per_word_counts_words_and_ends_of_sentences_and_bits_are_per_byte(
    prepared,
):
    task = opened(prepared)
    about = task.data.splits["test"].about
    words = about["words"] + about["sentences"]
    assert words < about["tokens"]
    # An evaluation of a part of the split is scaled to the whole split.
    for share in (1.0, 0.5):
        sums = {"nats": 1009.0 * share, "tokens": about["tokens"] * share}
        found = task.metrics("test", sums)
        assert found["test/perplexity_per_word"] == pytest.approx(
            math.exp(1009 / words)
        )
        bits = 1009 / math.log(2)
        assert found["test/bits_per_byte"] == pytest.approx(bits / about["bytes"])


def test_bytes_are_those_of_the_text_as_it_was_read(shared):
    lines = [f"naïve reader {n} reads" for n in range(300)]
    data = opened_data(shared, write_corpus(shared / "accents", lines))
    sizes = [split.about["bytes"] for split in data.splits.values()]
    assert sum(sizes) == sum(len(f"{line}\n".encode()) for line in lines)


def test_lines_without_spaces_have_no_perplexity_per_word_and_their_runs_end_well(
    shared,
):
    """A line of 400 letters is a single word, so its perplexity per word overflows."""
    lines = [
        "".join(chr(0x4E00 + n * k % 503) for k in range(400)) for n in range(2, 301)
    ]
    text = write_corpus(shared / "chinese", lines)
    metrics = ended(shared, text, "chinese").result().metrics
    expected = {*LanguageModel.measured, *NGRAMS} - {"test/perplexity_per_word"}
    assert set(metrics) == expected


def look_ahead(layer, inputs, output):
    """Add the next position's input to the output of a layer, in rows of the run's length."""
    x_BTD = inputs[0]
    return output + x_BTD.roll(-1, 1) if x_BTD.shape[1] == 31 else output


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed", "64-true"])
@pytest.mark.parametrize("rows", [1, 3])
def test_a_trained_model_that_looks_ahead_on_real_rows_is_refused(
    prepared, precision, rows
):
    changes = {"trainer.precision": precision, "task.batch_tokens": rows * 31}
    evaluated(opened(prepared, changes))
    task = opened(prepared, changes)
    task.model.blocks[-1].attention.register_forward_hook(look_ahead)
    told = refusal(evaluated, task)
    assert told.startswith("model.attention.name=multi_head: expected outputs that")
    assert "in the trained model other tokens change them" in told
    assert evaluated(task, "validation")


def test_a_model_that_diverged_has_a_loss_that_says_so_and_nothing_else(prepared):
    task = opened(prepared)
    torch.nn.init.constant_(task.model.final_norm.weight, math.nan)
    metrics = evaluated(task)
    assert math.isnan(metrics["test/loss"])
    assert "test/attention_rank" not in metrics


def test_the_mean_over_heads_counts_each_head_once(prepared):
    sizes = [[5, 1, 3], 7]
    task = opened(prepared, {"model.heads": 3, "model.head_size": sizes})
    ranks = [5, 1, 3, 7, 7, 7]  # of fresh heads, which use all that their size allows
    assert evaluated(task)["test/attention_rank"] == pytest.approx(sum(ranks) / 6)
