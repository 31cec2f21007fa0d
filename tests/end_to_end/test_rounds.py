"""Sweeps that decide and tune, with real training: rounds, choices, and that they repeat."""

import csv
import itertools
import json
import re
import shutil
import subprocess

import pytest

from benchmarks.measure import ROOT
from benchmarks.twins import ALIKE, HANDICAP, PLANTED, answers, command
from sweeper.store.plans import newest, plans
from sweeper.store.runs import RunStore, State
from tasks.synthetic.samples import LM1B, TEST_SHARD, World
from tests.end_to_end.test_sweep import python
from tests.faults.commands import verdicts

pytestmark = pytest.mark.slow
ENDED = re.compile(r"all \d+ claims have an answer after (\d+) rounds?, (\d+) runs?")


def sweep(outputs, *options, rates, repetitions=1):
    asked = command(outputs, outputs.parent / "conf", range(repetitions), rates=rates)
    asked += ["name=twins"] if repetitions == 1 else []
    return python(*asked[1:], *options)


def done(outputs):
    store = RunStore(outputs)
    return [run for run in store.ids() if store.run(run).status().state is State.DONE]


def found(outputs):
    """The verdicts, less what hours they would take, and every run's metrics and weights."""
    store = RunStore(outputs)
    results = {run: store.run(run).result() for run in store.ids()}
    return verdicts(outputs), {
        run: (r["metrics"], r["weights_sha256"]) for run, r in results.items()
    }


def rounds_on(folder, launcher, *options):
    """What a short sweep of twins ends in on a backend, at two runs at a time."""
    slots = "jobs" if launcher == "slurm" else "slots"
    asked = [f"hydra/launcher={launcher}", f"hydra.launcher.{slots}=2", "trainer.accelerator=cpu"]
    asked += options
    ended = sweep(folder / "outputs", *asked, "hydra.sweeper.max_seeds=4", rates=PLANTED)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "after 2 rounds, 8 runs" in ended.stdout
    return found(folder / "outputs")


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    outputs = tmp_path_factory.mktemp("planted") / "outputs"
    ended = sweep(outputs, rates=PLANTED)
    assert ended.returncode == 0, ended.stderr
    return outputs, ended.stdout


def test_a_planted_difference_is_found_and_nothing_is_trained_beyond_it(planted):
    outputs, said = planted
    assert answers(outputs) == {"not supported": 1}
    [(rounds, runs)] = ENDED.findall(said)
    assert int(rounds) > 1
    assert 6 < int(runs) == len(done(outputs)) < 60


def test_every_round_is_a_plan_that_holds_those_before_it(planted):
    outputs, said = planted
    written = plans(outputs)
    [(rounds, runs)] = ENDED.findall(said)
    assert len(written) == int(rounds)
    assert [len(plan.get("rounds", [])) for plan in written] == list(range(len(written)))
    for before, after in itertools.pairwise(written):
        assert after["rounds"][:-1] == before.get("rounds", [])
        assert after["rounds"][-1]["runs"] == len(before["runs"]) < len(after["runs"])
        [kept] = after["rounds"][-1]["verdicts"]["twins"]
        assert kept["answer"] == "undecided"
    assert len(written[-1]["runs"]) == int(runs)


def test_typed_twice_at_once_every_run_is_trained_once(planted, tmp_path):
    outputs = tmp_path / "outputs"
    asked = command(outputs, tmp_path / "conf", [0], rates=PLANTED)
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(asked, cwd=ROOT, **pipe) for _ in range(2)]
    said = [process.communicate(timeout=400) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert {tuple(ENDED.findall(out)) for out, _ in said} == {tuple(ENDED.findall(planted[1]))}
    assert found(outputs) == found(planted[0])
    store = RunStore(outputs)
    for run in store.ids():  # who came second has withdrawn before its first step
        assert sum(one.metrics_path.exists() for one in store.run(run).attempts()) == 1


def test_typed_again_it_trains_nothing_and_a_spent_budget_buys_nothing(planted):
    outputs, _ = planted
    before = done(outputs)
    again = sweep(outputs, "hydra.sweeper.budget_device_hours=1e-9", rates=PLANTED)
    assert again.returncode == 0
    assert "1 of 1 undecided: wins_at_equal_size, after 1 round," in again.stdout
    assert "budget_device_hours=1e-09 pays for no more" in again.stdout
    again = sweep(outputs, rates=PLANTED)
    assert ENDED.search(again.stdout)
    assert (done(outputs), len(RunStore(outputs).ids())) == (before, len(before))


def test_a_first_round_beyond_the_budget_is_not_begun(tmp_path):
    refused = sweep(tmp_path / "outputs", "hydra.sweeper.budget_device_hours=1e-9", rates=PLANTED)
    assert refused.returncode == 2
    asked = r"budget_device_hours=1e-09: expected at least \S+, the expected cost"
    assert re.search(asked, refused.stderr)
    assert not (tmp_path / "outputs" / "runs").exists()


def test_twins_never_differ(tmp_path):
    ended = sweep(tmp_path / "outputs", "hydra.sweeper.max_seeds=5", rates=ALIKE, repetitions=2)
    assert ended.returncode == 0, ended.stderr
    given = answers(tmp_path / "outputs")
    assert given.total() == 2
    assert given.keys() <= {"undecided", "no difference beyond the margin"}


def test_prices_are_told_and_a_sweep_is_what_it_is(planted):
    outputs, _ = planted
    assert "not supported" in python("-m", "sweeper", "decide", "--outputs", outputs).stdout
    same = python("-m", "sweeper", "compare", outputs, outputs)
    assert (same.returncode, same.stderr) == (0, "")
    assert "No claim has another answer." in same.stdout


RATE = "optimizer.learning_rate"


def tuned_sweep(outputs, text, *options):
    asked = command(outputs, outputs.parent / "conf", [0], rates=HANDICAP, tuned=True)
    asked += ["data=local", f"data.root={text}", "hydra.sweeper.max_seeds=3"]
    asked += ["experiment.tune.seeds=[7,8,9]", "name=twins_00"]
    ended = python(*asked[1:], *options)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def rows(outputs, name):
    with (outputs / "tables" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def choices(outputs):
    """What was chosen for each arm, less the runs that chose it."""
    found = newest(outputs)["twins_00"]["experiments"]["twins_00"]["tuning"]
    named = ("best", "trials")
    return [{key: value for key, value in one.items() if key not in named} for one in found]


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tuned")
    text = folder / "text"
    LM1B.write(text, 600, World(5, 7))
    return folder / "outputs", text, tuned_sweep(folder / "outputs", text)


def test_both_arms_get_the_same_trials_and_the_rate_that_is_best_for_their_model(tuned):
    outputs, _, said = tuned
    standard, twin = choices(outputs)
    assert {**standard, "arm": ""} == {**twin, "arm": ""}
    assert twin["values"][RATE] != HANDICAP[1]
    judged, trials = rows(outputs, "twins_00"), rows(outputs, "twins_00_trials")
    assert {float(row[RATE]) for row in judged} == {twin["values"][RATE]}
    assert {row["arm"] for row in judged} == {"standard", "twin"}
    tried = {row["run"] for row in trials}
    assert {run for row in judged for run in row["trials"].split()} == tried
    assert not tried & {row["run"] for row in judged}
    assert "7 trials a choice in every arm (standard 1, twin 1 choices)" in said
    assert f"tuning took {len(tried)} trials" in said


def test_verdicts_and_tables_say_how_the_values_were_chosen(tuned):
    outputs, _, said = tuned
    among = choices(outputs)[0]["among"]
    how = f"among {among} per point, the two best with 3 seeds"
    line = f"Learning rate chosen on validation {how}: standard "
    claims = json.loads((outputs / "tables" / "twins_00.claims.json").read_text())
    assert all(line in verdict["sentence"] for verdict in claims["verdicts"])
    assert line in said
    assert (outputs / "figures" / "twins_00_trials.pdf").stat().st_size > 0


def test_typed_again_it_chooses_the_same_and_trains_nothing(tuned):
    outputs, text, _ = tuned
    before, runs, made = choices(outputs), RunStore(outputs).ids(), plans(outputs)
    tuned_sweep(outputs, text)
    assert (choices(outputs), RunStore(outputs).ids(), plans(outputs)) == (before, runs, made)


def test_no_token_of_the_test_split_changes_a_choice(tuned, tmp_path):
    outputs, text, _ = tuned
    other = tmp_path / "text"
    shutil.copytree(text, other)
    [held_out] = other.rglob(TEST_SHARD.rpartition("/")[2])
    lines = held_out.read_text().splitlines()
    held_out.write_text("".join(f"{line[::-1].swapcase()}\n" for line in lines))
    tuned_sweep(tmp_path / "outputs", other)
    assert choices(tmp_path / "outputs") == choices(outputs)
    for name in ("twins_00", "twins_00_trials"):
        for here, there in zip(
            *(rows(o, name) for o in (tmp_path / "outputs", outputs)), strict=True
        ):
            assert here[RATE] == there[RATE]
            assert here.get("validation/loss") == there.get("validation/loss")
            assert here["test/loss"] != there["test/loss"]
