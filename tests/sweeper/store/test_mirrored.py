"""A run goes through a mirror and comes back as it was, or not at all."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sweeper.store.errors import UserError
from sweeper.store.mirrored import carried, opened_plan, restore
from sweeper.store.runs import Run, RunStore, State

RECORD = {
    "id": "small",
    "config": {"seed": 3, "model": {"dropout": 0.0}},
    "size": {},
    "names": {"arm": "a"},
}
RESULT = {"metrics": {"test/loss": 3.0}, "steps": 19, "seconds": 2.0}


def finished(outputs: Path, attempts: int = 2) -> Run:
    """A run that was done at the last of so many attempts."""
    run = RunStore(outputs).freeze(RECORD)
    for _ in range(attempts - 1):
        run.claim({}).finish("interrupted")
    last = run.claim({"code": "abc"})
    run.publish_result(last, RESULT)
    last.finish("done")
    return run


def test_a_finished_run_comes_back_byte_for_byte(tmp_path: Path) -> None:
    there = finished(tmp_path / "there")
    store = RunStore(tmp_path / "here")
    assert restore(store, "small", carried(there))
    here = store.run("small")
    for name in ("run.json", "result.json", "attempts/0002/attempt.json"):
        assert (here.path / name).read_bytes() == (there.path / name).read_bytes()
    assert here.status() == there.status()
    assert here.status().state is State.DONE
    assert here.history() == []
    assert restore(store, "small", carried(there)), "a second time it is there already"


def test_an_unfinished_run_comes_back_as_not_begun(tmp_path: Path) -> None:
    there = RunStore(tmp_path / "there").freeze(RECORD)
    there.claim({}).finish("nan", "the loss is nan")
    store = RunStore(tmp_path / "here")
    assert not restore(store, "small", carried(there))
    assert store.run("small").record() == there.record()
    assert store.run("small").status().state is State.NEW


def test_a_run_that_was_begun_here_is_left_alone(tmp_path: Path) -> None:
    there = finished(tmp_path / "there")
    store = RunStore(tmp_path / "here")
    store.freeze(RECORD).claim({}).finish("crash", "here")
    assert not restore(store, "small", carried(there))
    assert store.run("small").status().state is State.FAILED
    assert len(store.run("small").attempts()) == 1


def changed(name: str, key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    """Sets a key of one of the texts, as somebody would who does not know the seal."""

    def change(texts: dict[str, Any]) -> None:
        texts[name] = json.dumps(json.loads(texts[name]) | {key: value})

    return change


SPOILT: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "another run's record": (changed("record", "id", "other"), "changed after it was written"),
    "another metric": (changed("result", "metrics", {}), "changed after it was written"),
    "another format": (changed("result", "format", 7), "it is of format 7"),
    "another attempt": (changed("attempt", "number", 1), "not the one of its result"),
    "half a text": (lambda texts: texts.update(result=texts["result"][:40]), "no JSON"),
    "no text": (lambda texts: texts.update(result=7), "no JSON"),
    "no object": (lambda texts: texts.update(attempt="[1]"), "not an object"),
    "no record": (lambda texts: texts.pop("record"), "record is missing"),
}


@pytest.mark.parametrize("case", SPOILT)
def test_what_is_not_what_was_carried_writes_nothing(case: str, tmp_path: Path) -> None:
    spoil, expected = SPOILT[case]
    texts: dict[str, Any] = dict(carried(finished(tmp_path / "there")))
    spoil(texts)
    here = tmp_path / "here"
    with pytest.raises(UserError, match=f"small cannot be taken from the mirror.*{expected}"):
        restore(RunStore(here), "small", texts)
    assert not here.exists()


def test_a_record_under_another_name_is_refused(tmp_path: Path) -> None:
    texts = carried(finished(tmp_path / "there"))
    with pytest.raises(UserError, match="its record is that of small"):
        restore(RunStore(tmp_path / "here"), "other", texts)
    with pytest.raises(UserError):
        restore(RunStore(tmp_path / "here"), "../small", texts)
    assert not (tmp_path / "here").exists()


POINT = {"experiment": "fig1", "arm": "a", "seed": 0, "values": {}, "run": "small"}
PLAN = {
    "format": 1,
    "number": 4,
    "experiments": {"fig1": {}},
    "points": [POINT],
    "runs": {"small": {}},
}


def test_a_plan_comes_back_without_its_number() -> None:
    plan = opened_plan("p", {"plan": json.dumps(PLAN)})
    assert plan == {key: PLAN[key] for key in ("experiments", "points", "runs")}


@pytest.mark.parametrize(
    "change",
    [
        {"points": [{}]},
        {"points": [POINT | {"run": []}]},
        {"points": 7},
        {"runs": {}},
        {"runs": {"small": 7}},
        {"experiments": []},
    ],
    ids=["bare point", "no id", "no points", "unknown run", "bare run", "no experiments"],
)
def test_a_plan_that_is_none_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="does not hold what a plan holds"):
        opened_plan("p", {"plan": json.dumps(PLAN | change)})
