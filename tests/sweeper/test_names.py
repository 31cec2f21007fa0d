"""What sweeps leave in one folder: no table or figure of another is replaced without saying so."""

import io
import re
from pathlib import Path
from unittest.mock import Mock

import pytest
from rich.console import Console

from sweeper.__main__ import main
from sweeper.decide import check_claims
from sweeper.plan.planner import Planner
from sweeper.publish import print_everything
from sweeper.store.plans import plans, replaced, with_other_seeds
from sweeper.store.runs import RunStore
from sweeper.train import Executor, freeze
from tests.end_to_end.test_sweep import rows
from tests.policies import shipped
from tests.sweeper.plan.conftest import FakeProcess, described

pytestmark = pytest.mark.usefixtures("undrawn")

TYPED = {
    "head_sizes": "experiment=head_sizes",
    "head_sizes-steps-50": "experiment=head_sizes trainer.steps=50",
    "grid-heads-4-8": "model.heads=4,8",
    "grid-head_size-8-heads-4-8": "model.heads=4,8 model.head_size=8",
}
SAME = {
    "fig1": "experiment=fig1 scale=demo seed=0,1,2,3,4,5,6,7 logger=none trainer.threads=2",
    "fig1-seed-0": "experiment=fig1 seed=0",
    "fig1-gpu": "experiment=fig1 scale=gpu",
    "fig1-local-novels": "experiment=fig1 data=local data.root=/some/novels/",
    "run": "seed=0",
    "run-mnli": "task=mnli",
}
LONG = {
    "grid-heads-2-warmup_steps-1-to-52": "optimizer.warmup_steps=range(1,53) model.heads=2",
    "grid-head_size-heads-warmup_steps-steps": "model.head_size=32 model.heads=4,8,16,32 "
    "optimizer.warmup_steps=2 trainer.steps=30",
    "grid-5-settings": "model.head_size=32 model.heads=4,8,16,32 optimizer.warmup_steps=2 "
    "trainer.steps=30 optimizer.learning_rate=0.001",
}


@pytest.fixture(scope="module")
def planner():
    return Planner(shipped(), FakeProcess(), max_runs=997)


@pytest.fixture
def outputs(tmp_path):
    return tmp_path / "outputs"


@pytest.fixture
def sweep(planner, outputs):
    """Sweeps whose runs are done the moment they are planned."""

    def sweep(typed):
        plan = planner.plan([*typed.split(" "), f"paths.outputs={outputs}"])
        check_claims(plan)
        store = RunStore(outputs)
        freeze(plan, store, {})
        for number, id in enumerate(plan.runs):
            run = store.run(id)
            if run.result() is None:
                attempt = run.claim({})
                metrics = {"test/perplexity": 40.0 + number % 7, "test/loss": 3.5}
                steps = plan.runs[id].config["trainer"]["steps"]
                run.publish_result(attempt, {"metrics": metrics, "steps": steps, "seconds": 2.0})
                attempt.finish("done")
        [name] = plan.experiments
        print_everything(Console(file=io.StringIO()), outputs, [name])
        return name

    return sweep


def left(outputs: Path) -> list[set[str]]:
    """The names of tables and of figures."""
    pairs = (("tables", ".csv"), ("figures", ".pdf"))
    return [{p.stem for p in (outputs / folder).glob(f"*{end}")} for folder, end in pairs]


def test_four_sweeps_leave_four_tables_and_four_figures(sweep, outputs):
    assert [sweep(typed) for typed in TYPED.values()] == list(TYPED)
    assert left(outputs) == [set(TYPED), set(TYPED)]
    assert {row["steps"] for row in rows(outputs, "head_sizes-steps-50")} == {"50"}
    assert "50" not in {row["steps"] for row in rows(outputs, "head_sizes")}
    assert {row["model.head_size"] for row in rows(outputs, "grid-heads-4-8")} == {"8", "4"}


@pytest.mark.parametrize("name", SAME)
def test_a_name_holds_what_can_change_a_result_and_is_not_so_anyway(name):
    assert described(SAME[name])[1] == name


@pytest.mark.parametrize("name", LONG)
def test_a_long_name_consists_of_whole_words_and_is_told_from_others(name):
    found, other = (described(f"{LONG[name]}{more}")[1] for more in ("", " model.layers=2"))
    assert re.fullmatch(f"{name}-[0-9a-f]{{4}}", found)
    assert found != other
    assert len(found) <= 56


def test_another_grid_of_a_name_leaves_the_older_one_numbered(sweep, outputs):
    sweep("name=mine model.heads=2,4")
    before = (outputs / "tables" / "mine.csv").read_bytes()
    sweep("name=mine model.heads=2,8")
    assert left(outputs) == [{"mine", "mine-0001"}] * 2
    assert (outputs / "tables" / "mine-0001.csv").read_bytes() == before
    assert [row["model.heads"] for row in rows(outputs, "mine")] == ["2", "8"]
    assert main(["collect", "mine-0001", "--outputs", str(outputs)]) == 0
    assert [row["model.heads"] for row in rows(outputs, "mine-0001")] == ["2", "4"]
    assert main(["status", "mine-0001", "--outputs", str(outputs)]) == 0


def test_a_sweep_whose_name_another_took_meanwhile_ends_under_its_number(planner, outputs):
    typed = ("name=mine", f"paths.outputs={outputs}")
    plan, other = (planner.plan([f"model.heads={heads}", *typed]) for heads in ("2,4", "8"))
    console, nothing = Console(file=io.StringIO(), width=40), Mock()
    executor = Executor(console, RunStore(outputs), *[nothing] * 5)
    executor.train(plan, [], estimate={})
    assert executor.names(plan) == ["mine"]
    freeze(other, RunStore(outputs), {})
    assert executor.names(plan) == ["mine-0001"]
    assert console.file.getvalue().startswith("mine: plan 2 of another sweep took this name")


@pytest.mark.parametrize("more", ["model.heads=2,4,8", "model.heads=2,4 seed=0,1"])
def test_a_grid_that_holds_the_older_one_takes_its_place(sweep, outputs, more):
    sweep("name=mine model.heads=2,4")
    sweep(f"name=mine {more}")
    assert left(outputs) == [{"mine"}] * 2
    assert replaced(outputs, plans(outputs)[-1]) == {}


@pytest.mark.parametrize(
    ("heads", "seeds", "told"),
    [
        ("2,4", "0", {"mine": 1}),
        ("2,4", "0,1", {}),
        ("2,4", "0,1,2", {}),
        ("2,4,8,16", "0", {"mine": 1}),  # as many runs as before
        ("2,4", "1,2,3", {"mine": 1}),
    ],
)
def test_a_plan_without_some_seeds_of_an_older_one_is_told_apart(
    sweep, planner, outputs, heads, seeds, told
):
    sweep("name=mine model.heads=2,4 seed=0,1")
    again = ["name=mine", f"model.heads={heads}", f"seed={seeds}", f"paths.outputs={outputs}"]
    assert with_other_seeds(outputs, planner.plan(again).as_data()) == told


def forget(outputs: Path, name: str, *options: str) -> int:
    return main(["forget", name, *options, "--outputs", str(outputs)])


def test_what_is_forgotten_goes_and_what_others_use_stays(sweep, outputs, capsys):
    store = RunStore(outputs)
    sweep("name=mine model.heads=2,4")
    sweep("name=mine model.heads=2,8")
    sweep("name=other model.heads=8,16")
    [*every] = store.ids()
    page = outputs / "report.html"
    page.write_text("other, mine")
    assert forget(outputs, "mine", "--yes") == 0
    listed = capsys.readouterr().out
    assert "plans/0001.json" in listed
    assert "1 run stays: another plan has it" in listed
    assert left(outputs) == [{"other"}] * 2
    assert [list(plan["experiments"]) for plan in plans(outputs)] == [["other"]]
    gone = {run for run in every if run not in store.ids()}
    assert {run.split("-h")[1].split("x")[0] for run in gone} == {"2", "4"}
    assert all(run in listed for run in gone)
    assert [*outputs.glob(".*"), *outputs.glob("figures/*mine*")] == []
    assert page.exists()
    assert forget(outputs, "other", "--yes") == 0
    assert not page.exists()


def test_the_newest_plan_goes_by_its_number_with_the_results_under_the_plain_name(sweep, outputs):
    sweep("name=mine model.heads=2")
    sweep("name=mine model.heads=4")
    (outputs / ".forget.killed.tmp" / "3").mkdir(parents=True)
    assert forget(outputs, "mine-0002", "--yes") == 0
    assert left(outputs) == [{"mine-0001"}] * 2
    assert [*outputs.glob(".*")] == []


def test_what_runs_of_another_plan_start_from_stays(sweep, outputs):
    sweep("name=mine model.heads=2,4")
    parent, other = sorted(RunStore(outputs).ids(), key=lambda run: "-h4" in run)
    sweep(f"name=child model.heads=2 parent={parent} seed=1")
    assert forget(outputs, "mine", "--yes") == 0
    assert parent in RunStore(outputs).ids()
    assert other not in RunStore(outputs).ids()


def test_a_run_that_a_sweep_in_training_waits_for_stays(sweep, outputs, capsys):
    sweep("name=mine model.heads=2,4")
    store = RunStore(outputs)
    trained, waiting = store.ids()
    for run in (trained, waiting):
        (store.run(run).path / "result.json").unlink()
    store.run(trained).claim({})  # this very process lives
    assert forget(outputs, waiting, "--yes") == 2
    assert f"run {trained} is being trained" in capsys.readouterr().err
    assert store.ids() == [trained, waiting]


def test_an_experiment_of_a_name_goes_before_an_older_plan_of_another(sweep, outputs):
    sweep("name=mine model.heads=2")
    sweep("name=mine-0001 model.heads=4")
    assert forget(outputs, "mine-0001", "--yes") == 0
    assert left(outputs) == [{"mine"}] * 2
    assert ["-h2x" in run for run in RunStore(outputs).ids()] == [True]


def test_a_run_goes_when_it_is_named_and_is_new_again(sweep, outputs, capsys):
    sweep("name=mine model.heads=2,4")
    run, other = RunStore(outputs).ids()
    assert forget(outputs, run, "--yes") == 0
    assert "planned in mine: repeating the sweep trains it again" in capsys.readouterr().out
    assert RunStore(outputs).ids() == [other]
    assert main(["status", "mine", "--outputs", str(outputs)]) == 0
    sweep("name=mine model.heads=2,4")
    assert RunStore(outputs).ids() == sorted([run, other])


def test_a_pinned_state_of_the_code_goes_when_no_run_that_stays_needs_it(sweep, outputs, tmp_path):
    sweep("name=mine model.heads=2")
    sweep("name=other model.heads=4")
    store = RunStore(outputs)
    gone = plans(outputs)[0]["points"][0]["run"]
    every = sorted(store.ids(), key=lambda run: run != gone)
    for state, run in zip(("a", "b"), every, strict=True):
        (outputs / "code" / state).mkdir(parents=True)
        (outputs / "code" / state / "REVISION").write_text(f"newest\ncommit-{state}\n")
        attempt = store.run(run).claim({"code": f"commit-{state}"})
        attempt.finish("done")
    result = store.run(run).path / "result.json"
    result.rename(tmp_path / "result.json")  # its job may wait to start from either
    assert forget(outputs, gone, "--yes") == 0
    assert {path.name for path in (outputs / "code").iterdir()} == {"a", "b"}
    (tmp_path / "result.json").rename(result)
    assert forget(outputs, "mine", "--yes") == 0
    assert [path.name for path in (outputs / "code").iterdir()] == ["b"]


def test_of_a_plan_of_two_the_other_one_stays(planner, outputs):
    plan = planner.plan(["experiment=fig3,attention_rank", f"paths.outputs={outputs}"])
    freeze(plan, RunStore(outputs), {})
    assert forget(outputs, "fig3", "--yes") == 0
    [found] = plans(outputs)
    assert list(found["experiments"]) == ["attention_rank"]
    assert set() < set(found["runs"]) == set(RunStore(outputs).ids()) < set(plan.runs)


def test_nothing_goes_in_training_or_unconfirmed(sweep, outputs, monkeypatch, capsys):
    sweep("name=mine model.heads=2,4")
    before = sorted(outputs.rglob("*"))
    monkeypatch.setattr("sys.stdin", io.StringIO())
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    for answer in ("n", ""):
        monkeypatch.setattr("builtins.input", lambda _, answer=answer: answer)
        assert forget(outputs, "mine") == 1
    monkeypatch.setattr("builtins.input", Mock(side_effect=EOFError))
    assert forget(outputs, "mine") == 1
    assert sorted(outputs.rglob("*")) == before
    store = RunStore(outputs)
    run = store.run(store.ids()[0])
    (run.path / "result.json").unlink()
    run.claim({})  # this very process lives
    before = sorted(outputs.rglob("*"))
    assert forget(outputs, "mine", "--yes") == 2
    assert sorted(outputs.rglob("*")) == before
    assert forget(outputs, run.id, "--yes") == 2
    assert "being trained; stop that sweep first" in capsys.readouterr().err
