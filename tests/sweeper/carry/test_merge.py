"""Results that come home: whole and of records that are here, or not at all; twice is once."""

from __future__ import annotations

import json
import re
import shutil
import tarfile
from pathlib import Path

import pytest

from sweeper.carry.archive import MANIFEST, write_archive
from sweeper.carry.merge import merge
from sweeper.carry.run_files import run_files
from sweeper.store.attempts import Cause
from sweeper.store.errors import UserError
from sweeper.store.identity import run_id
from sweeper.store.runs import RunStore, State

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


def packed(home: Path, there: Path):
    """What unpacking does: the same records in another place."""
    for run in map(RunStore(home).run, RunStore(home).ids()):
        for name, file in run_files(run).items():
            (there / name).parent.mkdir(parents=True, exist_ok=True)
            (there / name).write_bytes(file if isinstance(file, bytes) else file.read_bytes())


def results(there: Path, **choices) -> Path:
    store = RunStore(there)
    begun = [run for run in map(store.run, store.ids()) if run.attempts()]
    files = {name: file for run in begun for name, file in run_files(run, **choices).items()}
    about = {"kind": "results", "runs": [run.id for run in begun]}
    [path] = write_archive(there.parent / "results.tar", files, about, None)
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
    packed(home, tmp_path / "there")
    return tmp_path / "there"


def test_what_was_trained_elsewhere_lies_here_as_it_lay_there_and_merged_twice_changes_nothing(
    home, there
):
    for run in map(RunStore(there).run, RunStore(there).ids()):
        finish(run)
    path = results(there)
    assert merge(home, path).in_words() == "runs from elsewhere: 2 done"
    assert contents(home / "runs") == contents(there / "runs")
    assert merge(home, path).in_words() == "runs from elsewhere: 0 done, 2 known before"
    assert contents(home / "runs") == contents(there / "runs")
    assert [p.name for p in home.iterdir()] == ["runs"]


def test_a_run_goes_on_elsewhere_where_it_stopped_here_and_comes_home_in_two_goes(home, tmp_path):
    first, second = map(RunStore(home).run, RunStore(home).ids())
    interrupt(first)
    packed(home, tmp_path / "there")
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
    run = RunStore(there).run(RunStore(there).ids()[0])
    run.claim({"micro_batches": 1})
    merge(home, results(there))
    assert RunStore(home).run(run.id).status().state is State.INTERRUPTED


def test_weights_may_stay_where_they_were_learned(home, there):
    run = RunStore(there).run(RunStore(there).ids()[0])
    finish(run)
    merge(home, results(there, weights=False))
    assert RunStore(home).run(run.id).status().state is State.DONE
    assert not list(home.rglob("*.ckpt"))


def test_a_run_trained_here_too_since_it_was_packed_stays_as_it_is(home, there):
    mine, theirs = (RunStore(folder).run(RunStore(home).ids()[0]) for folder in (home, there))
    finish(mine, loss=2.25)
    finish(theirs, loss=2.5)
    before = contents(home)
    merged = merge(home, results(there))
    assert (merged.done, len(merged.kept)) == ([], 1)
    assert mine.id in merged.kept[0]
    assert contents(home) == before


def test_an_unfinished_attempt_here_is_not_mistaken_for_the_one_of_that_number_there(home, there):
    mine, theirs = (RunStore(folder).run(RunStore(home).ids()[0]) for folder in (home, there))
    interrupt(mine, parts=2)  # otherwise the same process would have made both
    finish(theirs)
    before = contents(home)
    assert len(merge(home, results(there)).kept) == 1
    assert contents(home) == before


def test_a_run_that_was_never_planned_here_is_refused_and_nothing_is_merged(home, there):
    stranger = freeze(there, seed=5)
    for run in map(RunStore(there).run, RunStore(there).ids()):
        finish(run)
    before = contents(home)
    with pytest.raises(UserError, match=stranger.id):
        merge(home, results(there))
    assert contents(home) == before


def test_another_config_under_the_same_name_is_refused(home, there):
    run = RunStore(there).run(RunStore(there).ids()[0])
    config = json.loads((run.path / "run.json").read_text())["config"] | {"seed": 5}
    shutil.rmtree(run.path)
    RunStore(there).freeze({"id": "plain", "config": config})
    RunStore(home).freeze({"id": "plain", "config": config | {"seed": 7}})
    finish(RunStore(there).run("plain"))
    with pytest.raises(UserError, match="another config for run plain"):
        merge(home, results(there))


def test_a_changed_byte_in_any_file_is_refused_by_its_name(home, there, tmp_path):
    finish(RunStore(there).run(RunStore(there).ids()[0]))
    whole, before = results(there).read_bytes(), contents(home)
    with tarfile.open(tmp_path / "results.tar") as archive:
        members = [(m.name.partition("/")[2], m.offset_data, m.size) for m in archive]
    assert len(members) > 5
    for name, begin, size in members:
        changed = bytearray(whole)
        changed[begin + size // 2] ^= 1
        (tmp_path / "results.tar").write_bytes(changed)
        named = "cannot be" if name == MANIFEST else re.escape(name)
        with pytest.raises(UserError, match=named):
            merge(home, tmp_path / "results.tar")
    assert contents(home) == before


@pytest.mark.parametrize(
    "name",
    [
        "runs/../../evil.json",
        "/evil.json",
        "runs/{id}/../evil.json",
        "runs/{id}/attempts/0001/checkpoints/../../evil",
        "runs/{id}/attempts/evil/attempt.json",
        "runs/other/run.json",
        "plans/0001.json",
    ],
)
def test_a_name_that_leads_out_of_its_run_is_refused(home, there, tmp_path, name):
    run = RunStore(there).run(RunStore(there).ids()[0])
    finish(run)
    files = {**run_files(run), name.format(id=run.id): b"{}"}
    about = {"kind": "results", "runs": [run.id]}
    [path] = write_archive(tmp_path / "results.tar", files, about, None)
    before = contents(tmp_path)
    with pytest.raises(UserError):
        merge(home, path)
    assert contents(tmp_path) == before


def test_what_is_cut_short_or_no_results_file_is_refused(home, there, tmp_path):
    finish(RunStore(there).run(RunStore(there).ids()[0]))
    path = results(there)
    whole = path.read_bytes()
    for part in (b"", whole[:5000], b"no tar at all" * 1000):
        path.write_bytes(part)
        with pytest.raises(UserError, match="cannot be used"):
            merge(home, path)
    [pack] = write_archive(tmp_path / "sweep.tar", {}, {"kind": "pack", "runs": []}, None)
    with pytest.raises(UserError, match="is a pack"):
        merge(home, pack)


def test_links_are_refused(home, there, tmp_path):
    run = RunStore(there).run(RunStore(there).ids()[0])
    finish(run)
    path = results(there)
    link = tarfile.TarInfo(f"results/runs/{run.id}/link.json")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    with tarfile.open(path, "a") as archive:
        archive.addfile(link)
    with pytest.raises(UserError, match=r"link\.json"):
        merge(home, path)
