"""Tests of tuning with real training of two equal arms."""

import re
import shutil

import pytest

from sweeper.store.plans import newest
from tasks.synthetic.samples import LM1B, TEST_SHARD, World
from tests.end_to_end.test_sweep import python, rows
from tests.twins import arguments

pytestmark = pytest.mark.slow

RATE = "optimizer.learning_rate"


def sweep(outputs, text):
    asked = arguments(outputs.parent / "conf")
    asked.remove("data.sentences=600")  # of generated text only
    asked += ["data=local", f"data.root={text}", "hydra.sweeper.max_seeds=3"]
    return python("sweep.py", *asked, f"paths.outputs={outputs}").stdout


def choices(outputs):
    """Return the choice for each arm, without the trials behind it."""
    found = newest(outputs)["twins"]["experiments"]["twins"]["tuning"]
    for choice in found:
        del choice["best"], choice["trials"]
    return found


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tuned")
    text = folder / "text"
    LM1B.write(text, 600, World(5, 7))
    return folder / "outputs", text, sweep(folder / "outputs", text)


def test_both_arms_get_the_same_trials_and_the_rate_that_is_best_for_their_model(tuned):
    outputs, _, said = tuned
    standard, twin = choices(outputs)
    assert {**standard, "arm": ""} == {**twin, "arm": ""}
    judged, trials = rows(outputs, "twins"), rows(outputs, "twins_trials")
    assert {float(row[RATE]) for row in judged} == {twin["values"][RATE]}
    assert {row["arm"] for row in judged} == {"standard", "twin"}
    tried = {row["run"] for row in trials}
    assert {run for row in judged for run in row["trials"].split()} == tried
    assert not tried & {row["run"] for row in judged}
    assert "standard 5 trials" in said
    assert "twin 5 trials" in said
    assert re.search(r"\narm +point +.*seeds +mean", said)


def test_no_token_of_the_test_split_changes_a_choice(tuned, tmp_path):
    outputs, text, _ = tuned
    other = tmp_path / "text"
    shutil.copytree(text, other)
    [held_out] = other.rglob(TEST_SHARD.rpartition("/")[2])
    lines = held_out.read_text().splitlines()
    held_out.write_text("".join(f"{line[::-1].swapcase()}\n" for line in lines))
    sweep(tmp_path / "outputs", other)
    assert choices(tmp_path / "outputs") == choices(outputs)
    for name in ("twins", "twins_trials"):
        for here, there in zip(
            *(rows(o, name) for o in (tmp_path / "outputs", outputs)), strict=True
        ):
            assert here[RATE] == there[RATE]
            assert here.get("validation/loss") == there.get("validation/loss")
            assert here["test/loss"] != there["test/loss"]
