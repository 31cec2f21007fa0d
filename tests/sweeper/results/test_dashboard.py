"""Results published on W&B: the saved view, and the requests that a local server receives."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("wandb")
pytest.importorskip("wandb_workspaces")

from sweeper.results.dashboard import Project, workspace
from tests.sweeper.results.synthetic import few
from tests.wandb_server import ENTITY, Remote, wandb_server


def sweep(**about):
    """Return a small Figure 1 whose runs were mirrored to a W&B project."""
    made = few(seeds=2, **about)
    for record in made.records.values():
        record.config["logger"] = {"name": "wandb", "project": "headroom"}
    return made


def command(outputs, *words):
    """Run a command in a process of its own, because W&B forbids forks once it has run."""
    line = [sys.executable, "-m", "sweeper", *words, f"--outputs={outputs}"]
    return subprocess.run(line, capture_output=True, text=True)


@pytest.fixture
def server():
    with wandb_server() as server:
        yield server


def panels(sweep):
    """Return the title and axes of every panel in the saved view."""
    view = workspace(Project(ENTITY, "headroom"), [sweep.table()])
    saved = view._to_model().model_dump_json(by_alias=True, exclude_none=True)
    parts = json.loads(saved)["spec"]["section"]["panelBankConfig"]["sections"]
    return [panel["config"] for part in parts for panel in part["panels"]]


def test_a_panel_does_not_call_a_fraction_per_cent():
    made = sweep(metric="test/accuracy")
    titles = [panel.get("chartTitle", "") for panel in panels(made)]
    assert any(title.startswith("accuracy ") for title in titles)
    assert not any("%" in title for title in titles)


def test_the_view_draws_loss_by_arm_and_what_was_measured_against_sizes():
    made = sweep()
    for result in made.results.values():
        result["metrics"]["test/attention_rank"] = 7.5
    drawn = panels(made)
    by_arm = [panel for panel in drawn if "metrics" in panel]
    metrics = [["train/loss"], ["validation/loss"], ["tokens_per_second"]]
    assert [panel["metrics"] for panel in by_arm] == metrics
    assert {panel["groupBy"] for panel in by_arm} == {"names.value.arm"}
    assert {panel["xAxis"] for panel in by_arm} == {"trainer/global_step"}
    against = {(panel["xAxis"], panel["yAxis"]) for panel in drawn if "yAxis" in panel}
    assert against == {
        ("config:model.value.heads", "summary:test/perplexity"),
        ("config:size.value.head_size", "summary:test/perplexity"),
        ("config:size.value.params_total", "summary:test/perplexity"),
        ("config:size.value.params_total", "summary:tokens_per_second"),
        ("config:size.value.head_size", "summary:test/attention_rank"),
    }


@pytest.mark.slow
def test_dashboard_saves_one_view_and_sends_everything(tmp_path, server):
    mirrored = sweep().write(tmp_path / "mirrored")
    apart = few(seeds=2).write(tmp_path / "apart")
    first = command(mirrored, "dashboard", "fig1")
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.startswith(f"{server.address}/{ENTITY}/headroom?nw=")
    named = command(apart, "dashboard", "--project", f"{ENTITY}/headroom")
    assert named.stdout == first.stdout, "pushed again it is the same view"
    [view] = server.views.values()
    assert (view["entityName"], view["projectName"]) == (ENTITY, "headroom")
    assert view["displayName"] == "Headroom: fig1"
    run = server.runs["experiment-fig1"]
    assert run.state == "finished"
    assert (run.about["jobType"], run.about["groupName"]) == ("experiment", "fig1")
    decision = run.summary["small_beats_large, test perplexity per subword"]
    assert decision in ("supported", "not supported", "undecided")
    assert run.summary["table"]["nrows"] == len(sweep().points)
    *_, (newest, artifact) = [
        (id, artifact)
        for id, artifact in server.artifacts.items()
        if artifact["artifactCollectionName"] == "fig1"
    ]
    assert artifact["artifactTypeName"] == "experiment"
    assert artifact["committed"]
    for path in ("tables/fig1.csv", "tables/fig1.claims.json", "figures/fig1.pdf"):
        assert server.files[f"{newest}/{path}"] == (apart / path).read_bytes()


@pytest.mark.slow
def test_dashboard_gives_a_run_the_tag_of_an_experiment_that_was_planned_after_it(
    tmp_path, server
):
    made = sweep()
    [first, second, *_] = made.records
    for run, tags in ((first, ["fig3", "lm1b"]), (second, ["fig3", "fig1"])):
        server.runs[run] = Remote(
            run, "headroom", {"tags": tags}, summary={"test/loss": 2.5}
        )
    done = command(made.write(tmp_path), "dashboard", "fig1")
    assert (done.returncode, done.stderr) == (0, "")
    assert server.runs[first].about["tags"] == ["fig3", "lm1b", "fig1"]
    assert server.runs[second].about == {"tags": ["fig3", "fig1"]}, "it is left alone"
    assert server.runs[first].summary == {"test/loss": 2.5}


def test_dashboard_offline_needs_no_key_and_no_server(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    outputs = sweep().write(tmp_path / "of a sweep")
    done = command(outputs, "dashboard", "--offline")
    assert (done.returncode, done.stdout) == (0, f"wandb sync '{outputs / 'wandb'}'\n")
    [log] = outputs.glob(
        "wandb/offline-run-*-experiment-fig1/run-experiment-fig1.wandb"
    )
    assert b"fig1.csv" in log.read_bytes()


MISTAKES = {
    "no project": (["--project", "headroom"], "expected ENTITY/PROJECT"),
    "a group": (["--project", "me/headroom/fig1"], "expected ENTITY/PROJECT"),
    "no plan": ([], "expected a folder with a plan"),
    "not mirrored": ([], "logger.project=none: expected one project"),
    "no key": ([], "set WANDB_API_KEY, or run `wandb login`"),
    "no package": ([], 'run pip install "wandb-workspaces>=0.4.13"'),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_what_cannot_be_is_one_sentence(case, tmp_path, monkeypatch):
    words, expected = MISTAKES[case]
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    if case == "no package":
        (tmp_path / "wandb_workspaces.py").touch()
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    if case != "no plan":
        (few() if case == "not mirrored" else sweep()).write(tmp_path)
    done = command(tmp_path, "dashboard", *words)
    assert done.returncode == 2
    assert expected in done.stderr
    assert ("--offline" in done.stderr) == (case == "no package")
    assert done.stderr.startswith("error: ")
