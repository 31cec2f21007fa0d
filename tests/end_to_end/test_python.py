"""Tests that the Python interface returns the table and the models of a finished sweep."""

import json
import re

import pytest
import torch

import headroom_attention as headroom
from tests.end_to_end.test_sweep import ROOT, SMALL
from tests.refusals import refusal

MEASURE = "test/perplexity"
NAME = "equal-width"
TYPED = ["experiment=equal_width", f"name={NAME}", "seed=0", *SMALL]
TYPED += ["model.layers=2", "trainer.steps=10"]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("it's, a folder") / "outputs"
    rows = headroom.sweep(TYPED, outputs=folder)
    assert set(rows["state"]) == {"done"}
    assert set(rows["experiment"]) == {NAME}
    return folder


@pytest.fixture
def run(outputs):
    [found] = headroom.runs(
        NAME, {"model.heads": 2, "model.head_size": [16, 17]}, outputs=outputs
    )
    return found


def test_a_table_has_what_was_measured_and_every_key(outputs, run):
    table = headroom.table(NAME, outputs=outputs)
    assert len(table) == 7
    [row] = table[table["run"] == run.id].to_dict("records")
    assert row[MEASURE] == run.metrics()[MEASURE]
    told = {"model.head_size": 16, "optimizer.warmup_steps": 5, "seed": 0}
    assert row.items() >= told.items()


@pytest.mark.slow
def test_a_plan_has_trials_and_yaml_files_of_ones_own_and_folders_of_any_name(tmp_path):
    own, outputs = tmp_path / "own", tmp_path / "back\\slash's\\"
    (own / "experiment").mkdir(parents=True)
    shipped = (ROOT / "conf" / "experiment" / "fig1.yaml").read_text("utf-8")
    (own / "experiment" / "mine.yaml").write_text(shipped)
    typed = ["experiment=mine", "experiment.tuned=true", "name=mine"]
    planned = headroom.plan(["--config-dir", str(own), *typed], outputs=outputs)
    assert set(planned["experiment"]) == {"mine", "mine_trials"}
    assert [path.name for path in tmp_path.iterdir()] == ["own", "back\\slash's\\"]
    assert "experiment=mine: expected one of" in refusal(
        headroom.plan, ["experiment=mine"], outputs=outputs
    )


def test_verdicts_and_figure_are_those_of_the_files(outputs):
    file = json.loads((outputs / "tables" / f"{NAME}.claims.json").read_text())
    [found] = headroom.verdicts(NAME, outputs=outputs)
    assert [vars(found)] == file["verdicts"]
    figure = headroom.figure(NAME, outputs=outputs)
    assert len(figure.axes[0].lines) >= 2  # a curve for each arm


def test_a_loaded_model_measures_what_its_run_recorded(run):
    assert run.evaluate() == pytest.approx(run.metrics(), rel=1e-6)
    model = run.model()
    with torch.no_grad():
        next(model.parameters()).zero_()
    assert run.evaluate(model)[MEASURE] != run.metrics()[MEASURE]
    saved = torch.load(run.checkpoint, weights_only=True)
    assert all(
        torch.equal(value, saved[name])
        for name, value in run.model().state_dict().items()
    )


def test_attention_is_that_whose_spread_the_run_recorded(run):
    weights_LBHTT = torch.stack(run.attention())
    assert weights_LBHTT.shape == (2, 4, 2, 32, 32)
    assert torch.allclose(weights_LBHTT.sum(-1), torch.ones(2, 4, 2, 32))
    several_LBHT = ((weights_LBHTT > 0).sum(-1) > 1).float()
    entropy_LBHT = torch.special.entr(weights_LBHTT).sum(-1) * several_LBHT
    entropy_LH = entropy_LBHT.sum((1, 3)) / several_LBHT.sum((1, 3))
    recorded = run.metrics()["test/attention_entropy"]
    assert entropy_LH.mean().item() == pytest.approx(recorded, rel=1e-5)


def test_what_it_read_can_be_read(run):
    batch = run.batch("validation", rows=2)
    assert batch["tokens"].shape == (2, 32)
    assert " " in run.tokenizer().decode(batch["tokens"][0].tolist())
    history = run.history()
    assert list(history["step"][history["train/loss"].notna()]) == [5, 10]
    assert list(history["step"][history["validation/loss"].notna()]) == [2, 4, 6, 8, 10]
    assert run.config["model"]["heads"] == 2


WRONG = {
    "experiment": (
        lambda at: headroom.table("fig9", **at),
        "experiment=fig9: expected",
    ),
    "key": (
        lambda at: headroom.runs(None, {"model.head": 2}, **at),
        "did you mean model.heads?",
    ),
    "measured split": (
        lambda at: headroom.runs(**at)[0].evaluate(split="train"),
        "split=train: expected one of validation, test;",
    ),
    "text": (
        lambda at: headroom.plan("model.heads=2 seed=1", **at),
        "['model.heads=2', 'seed=1']",
    ),
    "flag": (
        lambda at: headroom.sweep(["-m", "seed=1"], **at),
        "overrides=-m: expected no flag",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_name_is_one_sentence(outputs, wrong):
    asked, words = WRONG[wrong]
    assert words in refusal(asked, {"outputs": outputs})


def test_the_lines_of_the_guide_work(outputs, monkeypatch, capsys):
    said = re.findall(
        r"```python\n(.*?)```",
        (ROOT / "docs" / "outputs.md").read_text("utf-8"),
        re.DOTALL,
    )
    assert len(said) == 2
    monkeypatch.chdir(outputs.parent)
    names = {}
    exec("".join(said).replace("fig1", NAME), names)
    shown = capsys.readouterr().out
    assert all(
        arm in shown for arm in set(names["table"]["arm"])
    )  # their points share names
    assert names["logits"].shape == (16, 32, 400)
    assert (outputs.parent / "attention.png").read_bytes().startswith(b"\x89PNG")
