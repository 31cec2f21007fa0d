"""Fine-tuned models are rows of their own tasks, sized and told apart by their pre-training."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.results.paper_tables import summarise
from sweeper.results.points import measures, missing, points, unfinished
from tests.sweeper.results.finetuned import FINETUNE, MODELS, finetuned, score


def test_the_parameters_of_a_row_are_those_of_its_pre_training(tmp_path: Path) -> None:
    rows = finetuned(tmp_path).rows
    assert {row["task"] for row in rows} == {"pretraining", "squad", "mnli"}
    for row in rows:
        assert row["params_total"] == MODELS[row["model.heads"]].size["params_total"]


@pytest.mark.parametrize("metric", [m for metrics in FINETUNE.values() for m in metrics])
def test_a_point_holds_the_seeds_of_the_task_that_the_metric_is_of(
    tmp_path: Path, metric: str
) -> None:
    table = finetuned(tmp_path, seeds=3)
    assert missing(table, metric) == ("", 0, 9)
    for point, model in zip(points(table, metric), MODELS.values(), strict=True):
        times = 100 if metric == "test/accuracy" else 1  # as it is shown: in per cent
        assert point.values == {seed: times * score(metric, model, seed) for seed in range(3)}


def test_a_metric_of_no_fine_tuning_task_is_the_pre_trainings(tmp_path: Path) -> None:
    table = finetuned(tmp_path)
    found = points(table, "test/loss")
    assert [list(point.runs) for point in found] == [[0]] * len(MODELS)


def test_what_is_unfinished_counts_pre_training_too(tmp_path: Path) -> None:
    table = finetuned(tmp_path, done=lambda task, heads, seed: task != "pretraining" or heads != 12)
    assert unfinished(table) == ("1 not started", 1, 3 + 3 * 2 * 2)


def test_accuracies_are_shown_in_percent_with_their_baselines(tmp_path: Path) -> None:
    table = finetuned(tmp_path)
    f1, exact, accuracy = measures(table)
    assert [one.words for one in (f1, exact, accuracy)] == [
        "SQuAD F1",
        "SQuAD exact match",
        "MNLI accuracy (%)",
    ]
    assert accuracy.points(table)[0].values == pytest.approx({0: 52.6, 1: 51.8})
    assert f1.points(table)[0].values == pytest.approx({0: 72.6, 1: 71.8})
    assert accuracy.baselines(table) == pytest.approx(
        {"majority class": 35.3, "bag of words": 38.1}
    )
    assert f1.baselines(table) == {}


def test_the_terminal_shows_every_metric(tmp_path: Path) -> None:
    lines = summarise(finetuned(tmp_path, "fig2"))
    assert lines[0] == "fig2: SQuAD and MNLI, standard against fixed head size"
    for words in ("SQuAD F1", "SQuAD exact match", "MNLI accuracy (%)"):
        assert sum(line.startswith(words + "  ") for line in lines) == 3  # one an arm
