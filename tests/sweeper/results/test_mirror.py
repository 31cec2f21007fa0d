"""Results shown in W&B and runs taken from there: the view as code, the server on loopback."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sweeper.__main__ import main
from sweeper.results.collect import write_tables
from sweeper.results.mirror.service import Project
from sweeper.results.mirror.workspace import workspace
from sweeper.store.mirrored import KEY, PLAN, carried
from sweeper.store.plans import latest
from sweeper.store.runs import RunStore
from tests.sweeper.results.grids import FEW, figure1
from tests.sweeper.results.synthetic import Sweep
from tests.wandb_server import ENTITY, Remote, WandbServer, wandb_server

wandb = pytest.importorskip("wandb")
pytest.importorskip("wandb_workspaces")

LOGGER = {"name": "wandb", "mode": "online", "project": "headroom", "entity": None}


@pytest.fixture
def server() -> Iterator[WandbServer]:
    with wandb_server() as server:
        yield server


def sweep(unfinished: bool = False) -> Sweep:
    """A small Figure 1 whose records say where they are mirrored; one embedding size not done."""
    made = figure1(
        grid=FEW,
        seeds=2,
        done=lambda arm, model, seed: not (unfinished and model.embedding_size == 96),
    )
    for record in made.records.values():
        record["config"]["logger"] = LOGGER
    return made


def mirror(outputs: Path, server: WandbServer, *, plan: bool = True) -> None:
    """What the mirrors of all runs in `outputs`, and `dashboard`, have told the server."""
    if plan:
        shown = server.runs["experiment-fig1"] = Remote("experiment-fig1", "headroom")
        shown.about["groupName"] = "fig1"
        shown.config[KEY] = {"value": {PLAN: json.dumps(latest(outputs, "fig1"))}}
    for id in RunStore(outputs).ids():
        run = RunStore(outputs).run(id)
        texts = carried(run)
        remote = server.runs[id] = Remote(id, "headroom")
        remote.about["groupName"] = run.record()["names"]["experiment"]
        remote.config[KEY] = {"value": {"record": texts.pop("record")}}
        if texts:
            remote.summary, remote.state = {KEY: texts}, "finished"


class Done(NamedTuple):
    """What a command came to."""

    code: int
    out: str
    err: str


def command(outputs: Path, *words: str) -> Done:
    """A command in a process of its own: this one goes on to fork jobs, which W&B would not stand.

    A fork, for W&B takes seconds to import.
    """
    outputs.mkdir(exist_ok=True)
    files = [outputs / "out.txt", outputs / "err.txt"]
    with warnings.catch_warnings():
        # Python >= 3.12 warns of the server's threads, of which the command needs none.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        code = 70
        try:
            sys.stdout, sys.stderr = (path.open("w") for path in files)
            code = main([*words, f"--outputs={outputs}"])
            wandb.teardown()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return Done(code, *(path.read_text() for path in files))


def panels(view: Any) -> list[dict[str, Any]]:
    """Title and axes of every panel, as the server is given them."""
    spec = json.loads(view._to_model().model_dump_json(by_alias=True, exclude_none=True))["spec"]
    found = [
        panel for part in spec["section"]["panelBankConfig"]["sections"] for panel in part["panels"]
    ]
    return [panel["config"] for panel in found]


def test_the_view_draws_loss_by_arm_and_what_was_measured_against_sizes(tmp_path: Path) -> None:
    view = workspace(Project(ENTITY, "headroom"), [sweep().table(tmp_path)])
    drawn = panels(view)
    by_arm = [panel for panel in drawn if "metrics" in panel]
    assert [panel["metrics"] for panel in by_arm] == [
        ["train/loss"],
        ["validation/loss"],
        ["tokens_per_second"],
    ]
    assert {panel["groupBy"] for panel in by_arm} == {"names.value.arm"}
    assert {panel["xAxis"] for panel in by_arm} == {"trainer/global_step"}
    against = {(panel["xAxis"], panel["yAxis"]) for panel in drawn if "yAxis" in panel}
    assert against == {
        ("config:model.value.heads", "summary:test/perplexity"),
        ("config:size.value.head_size", "summary:test/perplexity"),
        ("config:size.value.params_total", "summary:test/perplexity"),
        ("config:size.value.params_total", "summary:tokens_per_second"),
    }


def test_the_view_draws_the_rank_of_attention_where_it_was_measured(tmp_path: Path) -> None:
    made = sweep()
    for result in made.results.values():
        result["metrics"] |= {"test/attention_rank": 7.5, "test/attention_entropy": 1.5}
    drawn = panels(workspace(Project(ENTITY, "headroom"), [made.table(tmp_path)]))
    against = {panel["yAxis"]: panel["xAxis"] for panel in drawn if "yAxis" in panel}
    assert against["summary:test/attention_rank"] == "config:size.value.head_size"
    assert against["summary:test/attention_entropy"] == "config:size.value.head_size"


def test_dashboard_saves_one_view_and_sends_everything(tmp_path: Path, server: WandbServer) -> None:
    sweep().write(tmp_path)
    first, second = (command(tmp_path, "dashboard", "fig1") for _ in range(2))
    assert (first.code, first.err) == (0, "")
    assert first.out.startswith(f"{server.address}/{ENTITY}/headroom?nw=")
    assert second == first, "pushed again it is the same view"
    [view] = server.views.values()
    assert (view["entityName"], view["projectName"]) == (ENTITY, "headroom")
    assert view["displayName"] == "Headroom: fig1"
    run = server.runs["experiment-fig1"]
    assert (run.state, run.about["jobType"], run.about["groupName"]) == (
        "finished",
        "experiment",
        "fig1",
    )
    assert run.summary["small_beats_large, test perplexity per subword"] in (
        "supported",
        "not supported",
        "undecided",
    )
    assert run.summary["table"]["nrows"] == len(sweep().points)
    artifacts = {
        id: artifact
        for id, artifact in server.artifacts.items()
        if artifact["artifactTypeName"] == "experiment"
    }
    assert {artifact["artifactCollectionName"] for artifact in artifacts.values()} == {"fig1"}
    assert all(artifact["committed"] for artifact in artifacts.values())
    newest = list(artifacts)[-1]
    sent = {path.removeprefix(f"{newest}/"): data for path, data in server.files.items()}
    for path in ("tables/fig1.csv", "tables/fig1.claims.json", "figures/fig1.pdf"):
        assert sent[path] == (tmp_path / path).read_bytes()


def test_dashboard_offline_needs_no_key_and_no_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    sweep().write(tmp_path)
    done = command(tmp_path, "dashboard", "--offline")
    assert (done.code, done.out) == (0, f"wandb sync {tmp_path / 'wandb'}\n")
    [log] = tmp_path.glob("wandb/offline-run-*-experiment-fig1/run-experiment-fig1.wandb")
    assert b"fig1.csv" in log.read_bytes()


def test_runs_taken_from_there_give_the_same_table(tmp_path: Path, server: WandbServer) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    sweep().write(there)
    mirror(there, server, plan=False)
    assert command(there, "dashboard").code == 0
    done = command(here, "collect", "--from", "wandb", f"{ENTITY}/headroom", "fig1")
    assert done.code == 0
    assert f"{len(sweep().records)} done" in done.out
    for name in ("fig1.csv", "fig1.json", "fig1.claims.json"):
        assert (here / "tables" / name).read_bytes() == (there / "tables" / name).read_bytes()
    assert server.asked.count("Runs") > 1, "one page of runs: paging is not tested"


def test_of_runs_that_are_not_done_there_only_state_and_reason_are_unknown(
    tmp_path: Path, server: WandbServer
) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    made = sweep(unfinished=True)
    made.write(there)
    failed = next(id for id in made.records if id not in made.results)
    RunStore(there).run(failed).claim({}).finish("nan", "the loss is nan at step 7")
    mirror(there, server)
    write_tables(there)
    done = command(here, "collect", "--from", "wandb", f"{ENTITY}/headroom")
    assert "not done there" in done.out
    pandas = pytest.importorskip("pandas")
    tables = [pandas.read_csv(folder / "tables" / "fig1.csv") for folder in (there, here)]
    assert not tables[0].equals(tables[1])
    unknown = ["state", "reason"]
    known = [table.drop(columns=unknown).to_csv() for table in tables]
    assert known[0] == known[1]
    done = [table[table["state"] == "done"].to_csv() for table in tables]
    assert done[0] == done[1]


def test_a_run_that_is_here_stays_as_it_is(tmp_path: Path, server: WandbServer) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    sweep().write(there)
    mirror(there, server)
    other = sweep()
    id = next(iter(other.records))
    other.results[id] = {**other.results[id], "seconds": 99.5}
    other.write(here)
    assert command(here, "collect", "--from", "wandb", f"{ENTITY}/headroom").code == 0
    result = RunStore(here).run(id).result()
    assert result is not None
    assert result["seconds"] == 99.5


def test_one_group_alone(tmp_path: Path, server: WandbServer) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    sweep().write(there)
    mirror(there, server)
    foreign, *own = [id for id in server.runs if id != "experiment-fig1"]
    server.runs[foreign].about["groupName"] = "fig3"
    assert command(here, "collect", "--from", "wandb", f"{ENTITY}/headroom/fig1").code == 0
    assert RunStore(here).ids() == sorted(own)


def test_a_changed_text_is_refused_and_costs_only_its_run(
    tmp_path: Path, server: WandbServer
) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    sweep().write(there)
    mirror(there, server)
    forged, *others = sorted(id for id in server.runs if id != "experiment-fig1")
    texts = server.runs[forged].summary[KEY]
    texts["result"] = texts["result"].replace('"seconds": 12.5', '"seconds": 1.5')
    done = command(here, "collect", "--from", "wandb", f"{ENTITY}/headroom")
    assert done.code == 0
    assert f"{forged} cannot be taken from the mirror: its result cannot be used" in done.out
    assert RunStore(here).ids() == others


ASKED_WRONGLY = {
    "other service": (["collect", "--from", "mlflow", "a/b"], "expected wandb"),
    "no project": (["collect", "--from", "wandb", "headroom"], "expected ENTITY/PROJECT"),
    "project not there": (["collect", "--from", "wandb", "someone/nothing"], "refused"),
    "no plan there": (["collect", "--from", "wandb", "someone/bare"], "a project that holds"),
    "not mirrored": (["dashboard"], "expected a folder with a plan"),
}


@pytest.mark.parametrize("case", ASKED_WRONGLY)
def test_what_cannot_be_is_one_sentence(case: str, tmp_path: Path, server: WandbServer) -> None:
    words, expected = ASKED_WRONGLY[case]
    server.runs["bare"] = Remote("bare", "bare")
    code, _, error = command(tmp_path, *words)
    assert code == 2
    assert expected in error
    assert error.startswith("error: ")
    assert error.count("\n") == 1


def test_runs_that_are_not_mirrored_have_no_project(tmp_path: Path, server: WandbServer) -> None:
    figure1(grid=FEW, seeds=1).write(tmp_path)
    done = command(tmp_path, "dashboard")
    assert done.code == 2
    assert "logger.project=none: expected runs that are mirrored" in done.err
    assert command(tmp_path, "dashboard", "--project", f"{ENTITY}/other").code == 0
    [view] = server.views.values()
    assert view["projectName"] == "other"


def test_without_a_key_it_says_how_to_give_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    sweep().write(tmp_path)
    done = command(tmp_path, "dashboard")
    assert done.code == 2
    assert "set WANDB_API_KEY or run `wandb login`" in done.err


def test_without_the_extra_package_it_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb_workspaces.workspaces", None)
    sweep().write(tmp_path)
    done = command(tmp_path, "dashboard")
    assert done.code == 2
    assert "The package wandb-workspaces is not installed" in done.err
    assert "--offline" in done.err
