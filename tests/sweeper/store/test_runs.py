"""The record of a run is written once, and a run is found by its directory."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest

from sweeper.store.errors import UserError
from sweeper.store.runs import Run


def test_a_record_comes_back_as_it_was_frozen(store, record):
    run = store.freeze(record)
    assert run.path == store.outputs / "runs" / record["id"]
    assert run.record() == record
    assert store.ids() == [record["id"]]


def test_freezing_again_changes_nothing(store, record):
    path = store.freeze(record).path / "run.json"
    before = (path.read_bytes(), path.stat().st_ino)
    again = copy.deepcopy(record) | {"names": {"experiment": "fig3", "arm": "x", "label": "y"}}
    again["config"] = dict(reversed(again["config"].items())) | {"seed": 0.0}
    store.freeze(again)
    assert (path.read_bytes(), path.stat().st_ino) == before


@pytest.mark.parametrize(
    ("change", "key"),
    [
        pytest.param({"seed": 1}, "seed", id="value"),
        pytest.param({"seed": "0"}, "seed", id="type"),
        pytest.param({"extra": None}, "extra", id="added_null"),
        pytest.param({"extra": {"key": 1}}, "extra.key", id="added"),
        pytest.param({"model": {"layers": 3}}, "model.heads", id="removed"),
    ],
)
def test_another_config_under_the_same_id_is_refused_by_name(store, record, change, key):
    run = store.freeze(record)
    other = record | {"config": record["config"] | change}
    with pytest.raises(UserError, match=rf"run {run.id}: .* another {key} ") as caught:
        store.freeze(other)
    assert str(caught.value).isprintable()
    assert run.record() == record


@pytest.mark.parametrize("named", ["logger", "logger.mode"])
def test_keys_that_cannot_change_a_result_may_differ(store, record, named):
    run = store.freeze(record)
    other = record | {"config": record["config"] | {"logger": {"mode": "online"}}}
    store.freeze(other, apart_from=[named])
    assert run.record() == other, "what cannot change the result is taken as typed"
    attempt = run.claim({})
    run.publish_result(attempt, {"metrics": {}})
    store.freeze(record, apart_from=[named])
    assert run.record() == other, "of a finished run it says what was"
    with pytest.raises(UserError, match=r"another logger\.mode"):
        store.freeze(record, apart_from=["log", "seed"])


def test_a_directory_without_a_record_is_no_run_until_frozen(store, record):
    (store.outputs / "runs" / record["id"]).mkdir(parents=True)
    assert store.ids() == []
    with pytest.raises(UserError, match=r"no run\.json"):
        store.run(record["id"]).claim({})
    assert store.freeze(record).record() == record


@pytest.mark.parametrize("name", ["../escape", "/tmp/escape", "a/b", "..", "x\n", "", "a\0b"])
def test_a_hostile_run_id_touches_nothing(store, record, tmp_path, name):
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(UserError, match="plain name"):
        store.freeze(record | {"id": name})
    with pytest.raises(UserError, match="plain name"):
        store.run(name)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_run_opens_from_its_directory(run, monkeypatch):
    monkeypatch.chdir(run.outputs.parent)
    opened = Run.open(Path("outputs/runs") / run.id)
    assert (opened.id, opened.path, opened.outputs) == (run.id, run.path, run.outputs)


def test_what_is_no_run_directory_is_told_in_a_sentence(run, tmp_path):
    copied = run.path.with_name("renamed")
    copied.mkdir()
    (copied / "run.json").write_bytes((run.path / "run.json").read_bytes())
    for path in (tmp_path, run.path.parent, run.path / "run.json", tmp_path / "none", copied):
        with pytest.raises(UserError, match="expected"):
            Run.open(path)


def test_the_record_holds_what_a_person_can_read(run):
    text = (run.path / "run.json").read_text()
    assert text.count("\n") > 10
    written = json.loads(text)
    assert len(written.pop("sha256")) == 64
    assert written == run.record()


@pytest.mark.usefixtures("unsynced")
def test_ids_are_the_frozen_runs_in_order(store, record):
    assert store.ids() == []
    names = [f"run-{number:03d}" for number in (7, 3, 11, 2, 5)]
    for name in names:
        store.freeze(record | {"id": name})
    (store.outputs / "runs" / "stray").write_text("x")
    (store.outputs / "runs" / "link").symlink_to(store.outputs / "runs" / names[0])
    assert store.ids() == sorted(names)
