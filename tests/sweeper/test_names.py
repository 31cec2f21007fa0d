"""Tests that no sweep replaces another sweep's table or figure without saying so."""

import json
import re
from unittest.mock import Mock

import pytest
from rich.console import Console

from sweeper.__main__ import main
from sweeper.plan.planner import Planner
from sweeper.stages.decide import check_claims
from sweeper.stages.publish import print_everything
from sweeper.stages.train import freeze
from sweeper.store.asked import HISTORY
from sweeper.store.plans import command_of, plans, replaced
from tests.end_to_end.test_sweep import rows
from tests.policies import shipped
from tests.sweeper.conftest import finish
from tests.sweeper.plan.conftest import FakeProcess

pytestmark = pytest.mark.usefixtures("undrawn")

PLAIN = {
    "fig1": "experiment=fig1 scale=demo seed=0,1,2,3,4,5,6,7 logger=none trainer.threads=2",
    "run": "seed=0",
}
FIG1, GRID = "experiment=fig1 seed=0", "model.heads=4,8 model.head_size=8"


@pytest.fixture
def outputs(store):
    return store.outputs


@pytest.fixture
def planned(outputs):
    planner = Planner(shipped(), FakeProcess(), max_runs=997)

    def planned(typed):
        """Return the plan of a command line and the name of its results."""
        plan = planner.plan([*typed.split(" "), f"paths.outputs={outputs}"])
        [name] = plan.experiments
        return plan, name

    return planned


@pytest.fixture
def sweep(planned, outputs, store):
    """Return a function that plans a sweep, writes results for its runs and publishes them."""

    def sweep(typed):
        plan, name = planned(typed)
        check_claims(plan)
        freeze(plan, store, {})
        for number, id in enumerate(plan.runs):
            if store.run(id).result() is None:
                metrics = {"test/perplexity": 40.0 + number % 7}
                finish(store.run(id), {"metrics": metrics, "seconds": 2.0})
        print_everything(Console(quiet=True), outputs, [name])

    return sweep


def left(outputs):
    """Return the names of the tables and the names of the figures."""
    kinds = ("tables/*.csv", "figures/*.pdf")
    return [{path.stem for path in outputs.glob(kind)} for kind in kinds]


@pytest.mark.parametrize("name", PLAIN)
def test_what_changes_no_result_is_not_in_the_name(planned, name):
    assert planned(PLAIN[name])[1] == name


@pytest.mark.parametrize(
    "typed", [FIG1, GRID, "data=local data.root=/some/novels", "task.joined=false"]
)
def test_a_hash_tells_apart_what_changes_results(planned, typed):
    again = " ".join(reversed([*typed.split(" "), "logger=none"]))
    changed = f"{typed} model.layers=2"
    name, same, other = (planned(words)[1] for words in (typed, again, changed))
    assert re.fullmatch("[a-z0-9]+-[0-9a-f]{8}", name)
    assert name == same != other


def test_a_hash_stays_the_same_in_later_versions(planned):
    assert planned(GRID)[1] == "grid-72d70907"
    assert planned(FIG1)[1] == "fig1-bd048884"


def test_a_name_used_again_holds_the_new_results_until_the_older_command_is_typed(
    sweep, planned, store, outputs, monkeypatch
):
    def typed(heads):
        words = f"name=mine model.heads={heads}"
        command = f"sweep.py -m hydra.sweeper.plan_only=true {words}"
        monkeypatch.setattr("sys.argv", command.split())
        taken = replaced(outputs, planned(words)[0].as_data())
        sweep(words)
        assert left(outputs) == [{"mine"}] * 2
        drawn = {row["model.heads"] for row in rows(outputs, "mine")}
        assert drawn == {*heads.split(",")}
        return {name: command_of(plan) for name, plan in taken.items()}

    assert typed("2,4") == {}
    assert typed("2,8") == {"mine": "python sweep.py -m name=mine model.heads=2,4"}
    assert len(store.ids()) == 3
    assert typed("2,4") == {"mine": "python sweep.py -m name=mine model.heads=2,8"}
    assert typed("2,4,16") == {}


def test_the_same_command_replaces_results_if_its_text_or_yaml_has_changed(
    mine, planned, outputs
):
    """The command is that of this process, whatever is planned here."""

    def taken(heads):
        return {
            *replaced(outputs, planned(f"name=mine model.heads={heads}")[0].as_data())
        }

    assert taken("2,8") == {"mine"}
    assert taken("2") == set(), "a first round has fewer runs"


@pytest.fixture
def mine(sweep, store):
    """The runs of a sweep called mine, one with two heads and one with four."""
    sweep("name=mine model.heads=2,4")
    return store.ids()


@pytest.fixture
def forget(outputs, monkeypatch):
    """Return a function that forgets an experiment or a run at a terminal, with this answer."""
    monkeypatch.setattr("sys.stdin", Mock(isatty=lambda: True))

    def forget(name, answer=lambda question: "y"):
        monkeypatch.setattr("builtins.input", answer)
        return main(["forget", name, "--outputs", str(outputs)])

    return forget


def test_nothing_is_forgotten_beside_a_plan_that_cannot_be_read(
    mine, sweep, forget, store
):
    sweep("name=other model.heads=4,8")
    newest = store.outputs / "plans" / "0002.json"
    newest.write_text(newest.read_text().replace('"format": 1', '"format": 2'))
    every = store.ids()
    assert forget("mine") == 2
    assert store.ids() == every


def test_what_is_forgotten_goes_and_what_others_use_stays(
    mine, sweep, forget, store, outputs, capsys
):
    sweep("name=mine model.heads=2,8")
    sweep("name=other model.heads=8,16")
    page = outputs / "report.html"
    page.write_text("other, mine")
    assert forget("mine") == 0
    listed = capsys.readouterr().out
    assert "plans/0001.json" in listed
    assert "-h8x" not in listed  # another plan uses this run
    assert left(outputs) == [{"other"}] * 2
    assert [list(plan["experiments"]) for plan in plans(outputs)] == [["other"]]
    assert not {*mine} & {*store.ids()}
    assert len(store.ids()) == 2
    assert all(run in listed for run in mine)
    assert [*outputs.glob(".*"), *outputs.glob("figures/*mine*")] == []
    assert page.exists()
    assert forget("other") == 0
    assert not page.exists()


def test_a_run_whose_result_is_damaged_can_be_forgotten(mine, forget, store):
    damaged, other = mine
    (store.run(damaged).path / "result.json").write_text("{")
    assert forget(damaged) == 0
    assert store.ids() == [other]
    [line] = (store.outputs / HISTORY).read_text().splitlines()
    assert json.loads(line)["done"] == [damaged]


def test_a_run_that_a_sweep_in_training_waits_for_stays(mine, forget, store, capsys):
    trained, waiting = mine
    for run in mine:
        (store.run(run).path / "result.json").unlink()
    store.run(trained).claim({})  # claimed by this process, which is alive
    assert forget(waiting) == 2
    assert f"while run {trained} is in training" in capsys.readouterr().err
    assert store.ids() == mine


def test_what_wandb_keeps_here_of_a_run_or_an_experiment_goes_with_it(
    mine, forget, outputs, capsys
):
    first, second = mine
    kept = [
        outputs / "wandb" / name
        for name in (
            f"offline-run-20250101_000000-{first}",
            f"run-20250102_000000-{first}",
            f"offline-run-20250103_000000-{second}",
            "offline-run-20250104_000000-experiment-mine",
            "offline-run-20250105_000000-experiment-mine-too",
        )
    ]
    for folder in kept:
        folder.mkdir(parents=True)
    assert forget(first) == 0
    assert f"wandb/run-20250102_000000-{first}" in capsys.readouterr().out
    assert [folder for folder in kept if folder.exists()] == kept[2:]
    assert forget("mine") == 0
    assert [folder for folder in kept if folder.exists()] == kept[4:]


def test_nothing_goes_in_training_or_unconfirmed(mine, forget, store, capsys):
    before = sorted(store.outputs.rglob("*"))
    for word in ("n", ""):
        assert forget("mine", Mock(return_value=word)) == 1
    assert sorted(store.outputs.rglob("*")) == before
    run = store.run(mine[0])
    (run.path / "result.json").unlink()
    run.claim({})  # claimed by this process, which is alive
    before = sorted(store.outputs.rglob("*"))
    for name in ("mine", run.id):
        assert forget(name) == 2
        assert "is in training. Stop its sweep first" in capsys.readouterr().err
    assert sorted(store.outputs.rglob("*")) == before


def test_nothing_goes_if_another_sweep_planned_it_before_the_answer(
    mine, sweep, forget, store, capsys
):
    def answer(question):
        sweep("name=other model.heads=4,8")
        return "y"

    assert forget("mine", answer) == 2
    assert "Nothing of mine was removed" in capsys.readouterr().err
    assert {*mine} < {*store.ids()}


def test_the_history_is_written_before_anything_goes(
    mine, forget, outputs, monkeypatch
):
    stopped = Mock(side_effect=KeyboardInterrupt)
    monkeypatch.setattr("pathlib.Path.rename", stopped)
    assert forget("mine") == 130
    [line] = (outputs / HISTORY).read_text().splitlines()
    assert json.loads(line)["done"] == mine


def test_a_run_is_named_by_the_words_that_status_prints(
    mine, forget, store, outputs, capsys
):
    assert main(["status", "mine", "--all", "--outputs", str(outputs)]) == 0
    printed = capsys.readouterr().out
    [words] = re.findall(r"mine/grid .*heads=4 seed=0", printed)
    assert forget(words) == 0
    assert store.ids() == mine[:1]
    assert forget("mine/heads=8") == 2
    assert "but 0 runs matched" in capsys.readouterr().err
