"""Tests of rounds: which seeds they add, and what they cost. A stub trains the runs."""

import io
import json
import random
import shutil
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from rich.console import Console

from sweeper.__main__ import main
from sweeper.hydra_section import composer
from sweeper.plan.compose import CONF
from sweeper.plan.experiment import Margin
from sweeper.plan.planner import Planner
from sweeper.results.collect import collect
from sweeper.results.judge import verdicts_on
from sweeper.results.panel import Curves, notes_on
from sweeper.results.verdict import Decision
from sweeper.size_server import SizeServer
from sweeper.stages.decide import check_claims, decide
from sweeper.stages.publish import collect_and_judge
from sweeper.stages.sweep import sweep as whole_sweep
from sweeper.stages.train import Executor, freeze
from sweeper.store.changes import Changes
from sweeper.store.code import loaded_code
from sweeper.store.plans import newest
from sweeper.store.runs import RunStore
from tests.policies import policy, shipped
from tests.refusals import refusal
from tests.sweeper.conftest import finish
from tests.sweeper.plan.conftest import FakeProcess

ALIKE = """# @package _global_
experiment:
  title: the same points, of which another experiment has more seeds
  metric: test/perplexity
  seeds: [0, 1, 2]
  claims: [larger_heads_improve]
  arms: {fixed: {set: {model.embedding_size: 16}, grid: {model.head_size: [2, 4, 8]}}}
"""
SECONDS = {"pretraining": 1000.0, "squad": 10.0, "mnli": 20.0, "lm1b": 30.0}
GAIN = {"squad": 0.2, "mnli": 0.004}
"""What heads of twice the size gain. Seeds differ by 0.01."""
KEPT = ("points", "runs", "rounds")  # the same in every plan of one sweep


class Killed(Exception):
    """Raised in place of a SIGKILL."""


class Stub(Executor):
    """An executor that invents results. It raises Killed after `lives` runs."""

    def train(self, plan, left, *, rounds=()):
        freeze(plan, self.store, dict.fromkeys(left, 1.0), rounds)
        for id in sorted(left, key=lambda run: plan.runs[run].parent is not None):
            if not self.lives:
                raise Killed
            self.lives -= 1
            config, run = plan.runs[id].config, self.store.run(id)
            task, parent = config["task"]["name"], config["parent"]
            assert not parent or self.store.run(parent).result()
            if self.fails(config):
                run.claim({}).finish("nan")
                self._failed.add(id)
                continue
            # Fine-tunings share the luck of their pre-training.
            luck = random.Random(parent or id).gauss(0, 0.01)
            gain = GAIN.get(task, 0.0) if config["model"]["head_size"] == 32 else 0.0
            share = 0.5 + luck + gain
            metrics = dict.fromkeys(("test/f1", "test/exact_match"), 100 * share)
            metrics |= {"test/accuracy": share, "test/perplexity": 40 * (1 + luck)}
            result = {"seconds": SECONDS[task], "tokens_seen": 10**6}
            own = {} if task == "pretraining" else metrics
            finish(run, {"metrics": own, **result})
        return True


TYPED = {
    "fig2": "name=fig2 experiment=fig2 scale=cpu",  # seeds are pre-trainings
    "one": "name=one experiment=fig2 scale=cpu +experiment.pretrainings=one",
    "fig1": "name=fig1 experiment=fig1 seed=0,1,2",
    "alike": "experiment=few,more",
}


@pytest.fixture(scope="module")
def planned(tmp_path_factory):
    """Return plans by name."""
    folder = tmp_path_factory.mktemp("planned")
    conf = shutil.copytree(CONF, folder / "conf")
    more = ALIKE.replace("[larger_heads_improve]", "[]").replace("2]", "2, 3, 4, 5]")
    for name, text in {"few": ALIKE, "more": more}.items():
        (conf / "experiment" / f"{name}.yaml").write_text(text)
    planner = Planner(composer(conf), FakeProcess(), max_runs=10**4)
    return {
        name: planner.plan([*typed.split(), f"paths.outputs={folder}"])
        for name, typed in TYPED.items()
    }


def sweep(
    planned,
    outputs,
    lives=10**6,
    *,
    experiment="fig2",
    fails=lambda config: False,
    **options,
):
    """Run a sweep and return its output."""
    plan, store = replace(planned[experiment], outputs=outputs), RunStore(outputs)
    console = Console(file=io.StringIO(), width=200)
    backend = SimpleNamespace(slots=2, device="cpu")
    changes = Changes(outputs, loaded_code())
    executor = Stub(console, store, None, backend, policy(**options), None, changes)
    executor.lives, executor.fails = lives, fails
    decide(executor, plan, {run: 1.0 for run in executor.left(plan)})
    return console.file.getvalue()


@pytest.fixture
def typed(tmp_path, planned):
    return partial(sweep, planned, tmp_path)


@pytest.fixture(scope="module")
def quiet(planned, tmp_path_factory):
    """Return the folder and the output of an uninterrupted sweep of up to seven seeds."""
    outputs = tmp_path_factory.mktemp("quiet")
    return outputs, sweep(planned, outputs, max_seeds=7)


def found(outputs):
    """Return the newest plan of fig2, and the run of every seed for each task."""
    plan = newest(outputs)["fig2"]
    seeds = {}
    for point in plan["points"]:
        if point["arm"] == "fixed":
            seeds.setdefault(point["task"], {})[point["seed"]] = point["run"]
    return plan, seeds


def spent(plan, outputs):
    store = RunStore(outputs)
    return sum(store.run(run).result().seconds for run in plan["runs"]) / 3600


def test_a_further_seed_is_pre_trained_and_tuned_on_what_is_undecided_alone(quiet):
    outputs, said = quiet
    plan, seeds = found(outputs)
    assert len(seeds["squad"]) < len(seeds["mnli"]) == len(seeds["pretraining"]) <= 7
    for task in ("squad", "mnli"):
        for seed, run in seeds[task].items():
            assert plan["runs"][run]["parent"] == seeds["pretraining"][seed]
    hours = spent(plan, outputs)
    assert f"{len(plan['runs'])} runs, {hours:.2g} device hours" in said
    [table] = collect(outputs)
    squad = [one.verdict for one in verdicts_on(table) if "SQuAD" in one.measure]
    assert Decision.UNDECIDED not in squad, "decisions of earlier rounds are final"


def test_what_runs_start_from_counts_in_the_budget_and_in_the_price(typed, tmp_path):
    hours = 5.0  # enough for all seeds if only fine-tuning counted
    said = typed(max_seeds=30, budget_device_hours=hours)
    assert "would exceed hydra.sweeper.budget_device_hours=5" in said
    plan, _ = found(tmp_path)
    assert hours - 2 * 1030 / 3600 < spent(plan, tmp_path) <= hours
    verdicts = verdicts_on(*collect(tmp_path))
    prices = {v.measure: v.numbers["price"] for v in verdicts if "price" in v.numbers}
    asked = prices["MNLI accuracy (%)"]
    assert asked["hours"] == pytest.approx(asked["runs"] / 2 * (1000 + 20) / 3600)


def test_killed_and_typed_again_it_ends_the_same(quiet, planned, tmp_path):
    undisturbed, _ = found(quiet[0])
    for lives in (13, 17):  # before a pre-training and a fine-tuning of round 2
        outputs = tmp_path / f"killed after {lives}"
        with pytest.raises(Killed):
            sweep(planned, outputs, lives, max_seeds=7)
        sweep(planned, outputs, max_seeds=7)
        again, _ = found(outputs)
        assert [again[key] for key in KEPT] == [undisturbed[key] for key in KEPT]
        assert RunStore(outputs).ids() == RunStore(quiet[0]).ids()


def test_a_smaller_budget_takes_away_no_seed_that_is_trained(quiet, planned, tmp_path):
    undisturbed, _ = found(quiet[0])
    outputs = shutil.copytree(quiet[0], tmp_path / "outputs")
    sweep(planned, outputs, max_seeds=7, budget_device_hours=0.001)
    again, _ = found(outputs)
    assert again["runs"].keys() == undisturbed["runs"].keys()


def test_a_round_takes_seeds_that_another_experiment_has(typed, tmp_path):
    said = typed(experiment="alike", max_seeds=6)
    assert (
        "no undecided claim can get further seeds within hydra.sweeper.max_seeds=6"
        in said
    )
    points = newest(tmp_path)["few"]["points"]
    seeds = {point["seed"] for point in points if point["experiment"] == "few"}
    assert seeds == {*range(6)}


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ({"decide": True}, "decide=true needs an experiment with claims; choose one"),
        ({"until": ["larger"]}, "until needs hydra.sweeper.decide=true; add it, or"),
    ],
)
def test_rounds_need_claims_and_decide(tmp_path, monkeypatch, typed, told):
    process = Mock(spec=SizeServer, ask=FakeProcess().ask)
    monkeypatch.setattr("sweeper.stages.sweep.size_server", lambda: process)
    arguments = ["model.heads=4", f"paths.outputs={tmp_path}"]
    named = {"composer": shipped(), "launcher": "local", "launcher_options": None}
    assert told in refusal(whole_sweep, arguments, **named, options=policy(**typed))


def test_rounds_end_where_a_point_always_fails(typed, tmp_path):
    def fails(config):
        return config["model"]["heads"] == 8 and config["model"]["embedding_size"] == 24

    said = typed(experiment="fig1", fails=fails, max_seeds=5)
    assert (
        "no undecided claim can get further seeds within hydra.sweeper.max_seeds=5"
        in said
    )
    assert max(point["seed"] for point in newest(tmp_path)["fig1"]["points"]) < 5


def test_rounds_end_where_all_seeds_start_from_one_training(typed):
    assert "after 1 round, " in typed(experiment="one", max_seeds=9)


def test_claims_that_are_not_asked_about_buy_nothing(typed, tmp_path):
    said = typed(experiment="fig1", until=["fixed_keeps_improving"], max_seeds=5)
    assert "1 of 1 verdict undecided: fixed_keeps_improving (after" in said
    points = newest(tmp_path)["fig1"]["points"]
    of_fixed = {point["run"] for point in points if point["arm"] == "fixed"}
    bought = [point for point in points if point["seed"] > 2]
    assert max(point["seed"] for point in bought) == 4
    assert {point["run"] for point in bought} < of_fixed


def test_a_claim_that_nothing_makes_cannot_be_asked_about(planned):
    check_claims(planned["fig1"], ["fixed_keeps_improving"])
    told = refusal(check_claims, planned["fig1"], ["larger"])
    assert "hydra.sweeper.until=larger: expected a claim" in told


@pytest.fixture
def asks(planned, tmp_path):
    """Return a function that sweeps fig1 with changed terms and returns the verdicts."""
    plan = planned["fig1"]

    def asks(*claims, **terms):
        about = {"fig1": replace(plan.experiments["fig1"], claims=[*claims], **terms)}
        changed = {"fig1": replace(plan, experiments=about)}
        sweep(changed, tmp_path, max_seeds=3, experiment="fig1")
        return {verdict.claim: verdict for verdict in verdicts_on(*collect(tmp_path))}

    return asks


IMPROVES, WINS = "fixed_keeps_improving", "wins_at_equal_size"


def test_error_claims_confidence_and_margin_stand_in_every_verdict(asks, tmp_path):
    found = asks(IMPROVES, WINS, error=0.1)
    collect_and_judge(tmp_path, None)
    judged = json.loads((tmp_path / "tables" / "fig1.claims.json").read_text())[
        "verdicts"
    ]
    margin = found[IMPROVES].numbers["margin"]
    terms = {"error": 0.1, "claims": 2, "margin": margin, "asked_after": {}}
    words = "Judged at 95 % confidence, since 2 claims share an error of 10 %, with "
    for verdict in judged:
        assert verdict["numbers"].items() >= {**terms, "confidence": 0.95}.items()
        assert words in verdict["sentence"]
    [table] = collect(tmp_path)
    assert words in " ".join(notes_on(Curves(table, [])))


def test_a_claim_asked_later_shares_the_error_and_says_that_runs_were_done(asks):
    assert asks(IMPROVES)[IMPROVES].numbers["claims"] == 1
    later = asks(WINS)[WINS]
    assert later.numbers["claims"] == 2
    runs = later.numbers["asked_after"]["claim"]
    assert runs > 0
    assert f"The claim was first asked after {runs} runs had ended." in later.sentence
    again = asks(IMPROVES)[IMPROVES]
    assert again.numbers["claims"] == 2, "claims asked later count, too"
    assert again.numbers["asked_after"] == {}


@pytest.mark.parametrize(
    ("terms", "what"),
    [
        ({"error": 0.2}, "error"),
        ({"margin": {"test/perplexity": Margin("30 %", "It ends it.")}}, "margin"),
    ],
)
def test_an_error_or_a_margin_given_after_a_look_says_so(asks, terms, what):
    assert asks(IMPROVES)[IMPROVES].numbers["asked_after"] == {}
    later = asks(IMPROVES, **terms)[IMPROVES]
    assert [*later.numbers["asked_after"]] == [what]
    assert f"The {what} was first asked after" in later.sentence


def test_what_is_forgotten_leaves_a_line_and_is_not_asked_for_the_first_time(
    asks, tmp_path
):
    asks(IMPROVES, WINS)
    assert main(["forget", "fig1", "--yes", "--outputs", str(tmp_path)]) == 0
    [line] = [
        json.loads(one) for one in (tmp_path / "history.jsonl").read_text().splitlines()
    ]
    assert line["forgot"] == "fig1"
    assert line["experiments"]["fig1"]["claims"] == [IMPROVES, WINS]
    assert asks(IMPROVES)[IMPROVES].numbers["claims"] == 2
