"""Packs: what goes along, what may be typed after run.py, and results that come home."""

import json
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from sweeper.cli.pack import options_of
from sweeper.export import runner
from sweeper.export.pack import merge, run_files, unfinished, write_export, write_pack
from sweeper.run.options import OnOom
from sweeper.store.archive import MANIFEST, write_runs
from sweeper.store.errors import UserError
from sweeper.store.files import publish_with_checksum
from sweeper.store.identity import run_id
from sweeper.store.runs import Cause, Run, RunStore, State
from tests.policies import shipped

NAMES = {"experiment": "fig2", "arm": "standard", "label": "heads=3"}


def freeze(outputs: Path, seed: int):
    model = {"name": "decoder", "embedding_size": 17, "heads": 3, "attention": {"name": "wide"}}
    config = {"seed": seed, "task": {"name": "lm1b"}, "data": {}, "model": model}
    return RunStore(outputs).freeze({"id": run_id(config), "config": config, "names": NAMES})


def finish(run, loss=2.5):
    attempt = run.claim({"micro_batches": 1})
    (attempt.checkpoint_dir / "weights.ckpt").write_bytes(b"weights of " + run.id.encode())
    with attempt.metrics() as rows:
        rows.write({"step": 7, "train/loss": loss})
    run.publish_result(attempt, {"metrics": {"test/loss": loss}, "steps": 7})
    attempt.finish(Cause.DONE)


def interrupt(run, parts=1):
    attempt = run.claim({"micro_batches": parts})
    (attempt.checkpoint_dir / "step-00000003.ckpt").write_bytes(b"three steps")
    attempt.finish(Cause.INTERRUPTED, "asked to stop")


def runs_of(outputs: Path) -> list[Run]:
    store = RunStore(outputs)
    return [store.run(id) for id in store.ids()]


def unpacked(home: Path, there: Path):
    """What unpacking does: the same records in another place."""
    for run in runs_of(home):
        for name, file in run_files(run).items():
            (there / name).parent.mkdir(parents=True, exist_ok=True)
            (there / name).write_bytes(file if isinstance(file, bytes) else file.read_bytes())


def results(there: Path, **choices) -> Path:
    begun = [run for run in runs_of(there) if run.attempts()]
    files = {name: file for run in begun for name, file in run_files(run, **choices).items()}
    about = {"runs": [run.id for run in begun]}
    [path] = write_export(there.parent / "results.zip", "results", files, about)
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


@pytest.fixture
def home(tmp_path):
    freeze(tmp_path / "home", seed=2)
    freeze(tmp_path / "home", seed=3)
    return tmp_path / "home"


@pytest.fixture
def there(home, tmp_path):
    unpacked(home, tmp_path / "there")
    return tmp_path / "there"


def test_merged_runs_are_those_of_elsewhere_and_merging_again_changes_nothing(home, there):
    for run in runs_of(there):
        finish(run)
    path = results(there)
    (home / ".merge.killed.tmp" / "runs").mkdir(parents=True)
    for said in ("2 done", "0 done, 2 known before"):
        assert merge(home, path).summary() == f"runs from elsewhere: {said}"
        assert contents(home / "runs") == contents(there / "runs")
    assert [p.name for p in home.iterdir()] == ["runs"]


def test_a_run_goes_on_elsewhere_where_it_stopped_here_and_comes_home_in_two_goes(home, tmp_path):
    first, second = runs_of(home)
    interrupt(first)
    unpacked(home, tmp_path / "there")
    run = RunStore(tmp_path / "there").run(first.id)
    assert [path.read_bytes() for path in run.checkpoints()] == [b"three steps"]
    interrupt(run)
    assert merge(home, results(tmp_path / "there")).unfinished == [first.id]
    assert [attempt.number for attempt in first.attempts()] == [1, 2]
    assert merge(home, results(tmp_path / "there")).known == [first.id]
    finish(run)
    assert merge(home, results(tmp_path / "there")).done == [first.id]
    assert (first.status().state, first.status().attempt) == (State.DONE, 3)
    assert second.status().state is State.NEW


def test_an_attempt_that_left_no_word_there_is_over_here(home, there):
    runs_of(there)[0].claim({"micro_batches": 1})
    merge(home, results(there))
    assert runs_of(home)[0].status().state is State.INTERRUPTED


def test_weights_may_stay_where_they_were_learned_and_come_home_later(home, there):
    finish(runs_of(there)[0])
    merge(home, results(there, weights=False))
    assert runs_of(home)[0].status().state is State.DONE
    assert not list(home.rglob("*.ckpt"))
    assert merge(home, results(there)).summary() == "runs from elsewhere: 1 done"
    assert contents(runs_of(home)[0].path) == contents(runs_of(there)[0].path)
    assert merge(home, results(there)).known


def test_weights_do_not_come_into_an_archive_unseen(home, there):
    finish(runs_of(there)[0])
    merge(home, results(there, weights=False))
    [run, _] = runs_of(home)
    write_runs(home, "first", [run.path])
    shutil.rmtree(run.path)
    [kept] = merge(home, results(there)).kept
    assert f"{run.id} lies in an archive without its weights; unzip that" in kept
    shutil.copytree(runs_of(there)[0].path, run.path)
    write_runs(home, "an-earlier-name", [run.path])
    shutil.rmtree(run.path)
    assert len(list(runs_of(home)[0].attempts()[0].checkpoint_files("*"))) == 1
    assert merge(home, results(there)).known == [run.id]


def test_an_earlier_file_of_results_changes_nothing_after_a_later_one(home, there):
    run = runs_of(there)[0]
    interrupt(run)
    earlier = results(there).rename(there.parent / "earlier.zip")
    finish(run)
    assert merge(home, results(there)).done == [run.id]
    assert merge(home, earlier).summary() == "runs from elsewhere: 0 done, 1 known before"


@pytest.mark.parametrize("done", [True, False], ids=["trained here too", "the same number"])
def test_a_run_with_attempts_of_its_own_since_it_was_packed_stays_as_it_is(home, there, done):
    mine, theirs = (runs_of(folder)[0] for folder in (home, there))
    if done:
        finish(mine, loss=2.25)
    else:
        interrupt(mine, parts=2)  # otherwise the same process would have made both
    finish(theirs, loss=2.5)
    before = contents(home)
    merged = merge(home, results(there))
    [kept] = merged.kept
    assert mine.id in kept
    assert not merged.done
    assert contents(home) == before


def test_a_run_that_was_never_planned_here_is_refused_and_nothing_is_merged(home, there):
    stranger = freeze(there, seed=5)
    for run in runs_of(there):
        finish(run)
    before = contents(home)
    with pytest.raises(UserError, match=stranger.id):
        merge(home, results(there))
    assert contents(home) == before


def test_another_config_under_the_same_name_is_refused(home, there):
    shutil.rmtree(there / "runs")
    for outputs, seed in ((there, 5), (home, 7)):
        RunStore(outputs).freeze({"id": "plain", "config": {"seed": seed}})
    finish(RunStore(there).run("plain"))
    with pytest.raises(UserError, match="another config for run plain"):
        merge(home, results(there))


@pytest.mark.parametrize(
    "name",
    [
        "runs/{id}/../evil.json",
        "runs/{id}/attempts/0001/checkpoints/../../evil",
        "runs/{id}/attempts/evil/attempt.json",
        "runs/other/run.json",
        "plans/0001.json",
    ],
)
def test_a_name_that_leads_out_of_its_run_is_refused(home, there, tmp_path, name):
    run = runs_of(there)[0]
    finish(run)
    files = {**run_files(run), name.format(id=run.id): b"{}"}
    [path] = write_export(tmp_path / "results.zip", "results", files, {"runs": [run.id]})
    before = contents(tmp_path)
    with pytest.raises(UserError):
        merge(home, path)
    assert contents(tmp_path) == before


def test_another_kind_of_archive_is_refused_with_what_to_do_with_it(home, tmp_path):
    [pack] = write_export(tmp_path / "sweep.zip", "pack", {}, {"runs": []})
    with pytest.raises(UserError, match="is of kind pack, not results: unzip it where its runs"):
        merge(home, pack)
    [strange] = write_export(tmp_path / "results.zip", "results", {}, {"runs": [7]})
    with pytest.raises(UserError, match=r"manifest.json.runs.0: Input should be a valid string"):
        merge(home, strange)


@pytest.fixture
def family(tmp_path):
    """A parent, two children of it and a stranger to them; the plan of their experiment."""
    for text in ("text-7", "text-9"):
        (tmp_path / "data" / text).mkdir(parents=True)
        (tmp_path / "data" / text / "rows.uint16").write_bytes(b"rows")
    runs = [freeze(tmp_path, seed) for seed in (2, 3, 5, 7)]
    parent, first, second, stranger = (run.id for run in runs)
    size = {"tokens": 11, "flops_per_token": 13}
    parents = {parent: None, first: parent, second: parent, stranger: None}
    points = [("fig2", first), ("fig2", second), ("fig1", stranger)]
    plan = {
        "points": [{"experiment": name, "run": run} for name, run in points],
        "runs": {run: {"size": size, "parent": parent} for run, parent in parents.items()},
    }
    return runs, plan


def packed(tmp_path, runs):
    process: Any = Mock(ask=lambda questions: [{"prepared": "text-7"} for _ in questions])
    about = {"experiments": ["fig2"], "options": {}}
    [path] = write_pack(tmp_path / "sweep.zip", RunStore(tmp_path), runs, about, process)
    with zipfile.ZipFile(path) as archive:
        names = [name.removeprefix("sweep/") for name in archive.namelist()]
        return names, json.loads(archive.read("sweep/manifest.json"))


def test_a_parent_goes_along_before_its_children_and_other_experiments_stay(family, tmp_path):
    (parent, first, second, stranger), plan = family
    runs = unfinished(tmp_path, {"fig2": plan})
    assert set(runs) == {parent.id, first.id, second.id}
    assert (runs[first.id]["parent"], runs[first.id]["cost"]) == (parent.id, 11 * 13)
    names, manifest = packed(tmp_path, runs)
    assert manifest["runs"] == runs
    assert not [name for name in names if stranger.id in name or "text-9" in name]
    assert "outputs/data/text-7/rows.uint16" in names
    assert not [name for name in names if "hydra" in name or "results/" in name or "plan/" in name]


def test_a_package_of_other_people_goes_along_as_if_installed_there(family, tmp_path, installed):
    installed("mine", "class Mine: ...", {"headroom.attention": "wide = mine"})
    (parent, *_), plan = family
    runs = {parent.id: unfinished(tmp_path, {"fig2": plan})[parent.id]}
    names, _ = packed(tmp_path, runs)
    assert {name for name in names if "mine" in name} == {
        "code/mine/__init__.py",
        "code/mine-1.2.3.dist-info/METADATA",
        "code/mine-1.2.3.dist-info/entry_points.txt",
    }


def unzipped(tmp_path: Path) -> Path:
    subprocess.run(["unzip", "-q", "sweep.zip"], cwd=tmp_path, check=True)
    return tmp_path / "sweep"


def started(there: Path) -> str:
    """The sentence in which an unpacked pack ends, without what is installed."""
    command = [sys.executable, "-S", "run.py"]
    told = subprocess.run(command, cwd=there, capture_output=True, text=True, check=False)
    assert told.returncode == 1
    [sentence] = told.stderr.splitlines()
    return sentence


@pytest.mark.parametrize("along", [False, True], ids=["", "with wheels"])
def test_missing_libraries_are_named_with_how_to_get_them(family, tmp_path, along):
    _, plan = family
    packed(tmp_path, unfinished(tmp_path, {"fig2": plan}))
    there = unzipped(tmp_path)
    if along:
        (there / "wheels").mkdir()
        with zipfile.ZipFile(there / "wheels" / "pydantic-2-py3-none-any.whl", "w") as wheel:
            wheel.writestr("pydantic/__init__.py", "")
    sentence = started(there)
    missing = "torch, numpy, pytorch-lightning" if along else "torch, numpy, pydantic, pytorch-"
    assert sentence.startswith(f"error: {missing}")
    assert f"{sys.executable} -m pip install torch==" in sentence
    assert "+cpu" not in sentence
    python = f"--python {sys.version_info.major}.{sys.version_info.minor}-{platform.machine()}"
    assert sentence.endswith(f"without a network, pack again with {python}")
    assert "--python 3.12-x86_64" in (there / "README.md").read_text()


def test_of_what_is_done_only_what_children_start_from_goes_along(family, tmp_path):
    (parent, first, second, _), plan = family
    finish(parent)
    finish(first)
    interrupt(second)
    runs = unfinished(tmp_path, {"fig2": plan})
    assert set(runs) == {second.id}
    names, _ = packed(tmp_path, runs)
    for run, kept in ((parent, "weights.ckpt"), (second, "step-00000003.ckpt")):
        assert f"outputs/runs/{run.id}/attempts/0001/checkpoints/{kept}" in names
    assert not [name for name in names if first.id in name]


def test_a_run_that_goes_on_elsewhere_may_remove_the_checkpoint_that_was_packed(family, tmp_path):
    (parent, *_), plan = family
    interrupt(parent)
    packed(tmp_path, unfinished(tmp_path, {"fig2": plan}))
    there = unzipped(tmp_path)
    run = RunStore(there / "outputs").run(parent.id)
    run.checkpoints()[0].unlink()
    for words in ("step-00000003.ckpt is not what was packed", "torch, numpy, pydantic"):
        assert words in started(there)
        interrupt(run)


def test_a_typed_parent_of_another_plan_goes_along(family, tmp_path):
    (parent, first, _, _), plan = family
    finish(parent)
    left = {key: about for key, about in plan["runs"].items() if key != parent.id}
    found = unfinished(tmp_path, {"fig2": {**plan, "runs": left}})
    assert found[first.id]["parent"] == parent.id
    assert parent.id not in found


def test_nothing_is_packed_that_is_trained_here_now_or_done(family, tmp_path):
    (parent, first, second, _), plan = family
    first.claim({})
    with pytest.raises(UserError, match=first.id):
        unfinished(tmp_path, {"fig2": plan})
    for run in (parent, first, second):
        finish(run)
    with pytest.raises(UserError, match="nothing to pack"):
        unfinished(tmp_path, {"fig2": plan})


def test_a_forgotten_run_is_packed_by_its_overrides(family, tmp_path):
    (_, first, *_), plan = family
    shutil.rmtree(first.path)
    with pytest.raises(UserError, match=f"{first.id} of fig2 was forgotten; name the overrides"):
        unfinished(tmp_path, {"fig2": plan})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An unpacked pack of no runs; how they would be trained is looked at instead."""
    options = options_of(shipped().hydra(["hydra.launcher.slots=5"]))
    about = {"format": 2, "kind": "pack", "files": {}, "runs": {}, "options": options}
    about["spent_h"] = 2.5
    publish_with_checksum(tmp_path / MANIFEST, about)
    (tmp_path / "outputs").mkdir()
    monkeypatch.setattr(runner, "train", lambda *how: runner.asked.append(how) or 0)
    monkeypatch.setattr(runner, "asked", [], raising=False)
    return tmp_path


def test_options_are_those_of_the_pack_but_for_what_is_typed(folder):
    typed = ["hydra.sweeper.on_oom=halve", "hydra.sweeper.hang_after_s=null",
             "hydra.launcher.stagger_s=7"]  # fmt: skip
    assert runner.main(folder, typed) == 0
    [(_, pack, options, launcher)] = runner.asked
    assert pack.spent_h == 2.5
    assert options.on_oom is OnOom.halve
    assert (options.hang_after_s, options.tries) == (None, 3)
    assert (launcher.slots, launcher.stagger_s, launcher.jobs_per_device) == (5, 7, 1)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("hydra.launcher.slots=0", ["hydra.launcher.slots=0", "at least 1"]),
        ("hydra.launcher.slots=many", ["hydra.launcher.slots=many", "valid integer"]),
        ("hydra.sweeper.on_oom=often", ["hydra.sweeper.on_oom=often", "'fail' or 'halve'"]),
        ("hydra.launcher.slot=2", ["hydra.launcher.slot=2", "hydra.launcher.slots"]),
        ("2", ["run.py=2", "hydra.launcher.slots"]),
    ],
)
def test_what_cannot_be_is_one_sentence_and_nothing_is_trained(folder, capsys, typed, words):
    assert runner.main(folder, [typed]) == 2
    told = capsys.readouterr().err
    assert all(word in told for word in words), told
    assert len(told.splitlines()) == 1
    assert not runner.asked
    assert not (folder / "results.zip").exists()
