"""A record or a result that was changed after it was written is not used."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest

from sweeper.store.errors import UserError
from sweeper.store.files import FORMAT, publish_with_checksum
from sweeper.store.identity import run_id
from sweeper.store.runs import Run, RunStore, State

RESULT = {"metrics": {"test/loss": 3.25}, "steps": 1000, "weights_sha256": "0" * 64}


def edited(path: Path, **changes: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_record_with_another_config_is_refused(run):
    config = run.record()["config"] | {"seed": 5}
    edited(run.path / "run.json", config=config)
    with pytest.raises(UserError, match="changed after it was written"):
        Run.open(run.path)


def test_a_result_with_another_metric_is_no_result_and_is_told(run):
    attempt = run.claim({})
    assert run.publish_result(attempt, RESULT)
    assert run.status().state is State.DONE
    edited(run.path / "result.json", metrics={"test/loss": 0.5})
    assert run.status().state is State.FAILED
    assert "changed after it was written" in run.status().reason


def test_a_result_that_says_no_digest_is_no_result(run):
    run.publish_result(run.claim({}), RESULT)
    path = run.path / "result.json"
    unsealed = json.loads(path.read_text())
    del unsealed["sha256"]
    path.write_text(json.dumps(unsealed))
    assert run.status().state is State.FAILED
    assert "sha256" in run.status().reason


def test_the_result_of_another_run_is_no_result(tmp_path):
    store = RunStore(tmp_path)
    configs = [{"task": {"name": "lm1b"}, "seed": seed} for seed in (3, 5)]
    runs = [store.freeze({"id": run_id(config), "config": config}) for config in configs]
    for run, loss in zip(runs, (3.25, 0.5), strict=True):
        run.publish_result(run.claim({}), RESULT | {"metrics": {"test/loss": loss}})
    one, other = (run.path / "result.json" for run in runs)
    other.replace(one)
    assert runs[0].status().state is State.FAILED
    assert f"that of run {runs[1].id}" in runs[0].status().reason


def test_a_record_whose_seal_was_made_anew_is_not_the_run_of_its_name(tmp_path):
    config = {"task": {"name": "lm1b"}, "seed": 3, "logger": {"name": "none"}}
    run = RunStore(tmp_path).freeze({"id": run_id(config), "config": config})
    path = run.path / "run.json"
    for changed, refused in (({"seed": 5}, True), ({"logger": {"name": "wandb"}}, False)):
        path.unlink()
        record = {"format": FORMAT, "id": run.id, "config": {**config, **changed}}
        assert publish_with_checksum(path, record)
        if refused:
            with pytest.raises(UserError, match="the config that the run is named by"):
                Run.open(run.path)
        else:  # where metrics are mirrored to names no run
            assert Run.open(run.path).record()["config"] == record["config"]


@pytest.mark.parametrize("name", ["run.json", "result.json"])
def test_every_cut_and_every_changed_letter_is_noticed(run, name):
    run.publish_result(run.claim({}), RESULT)
    path = run.path / name
    whole = path.read_bytes()
    read = run.record if name == "run.json" else run.result
    good = read()
    seal = whole.index(b'"sha256"')  # a file that says no digest at all is read as it is
    for place in [*range(seal), *range(seal + 10, len(whole))]:
        for damaged in (whole[:place], whole[:place] + b"7" + whole[place + 1 :]):
            path.write_bytes(damaged)
            with suppress(UserError):
                assert read() == good  # a letter that says the same, or the line end


def test_a_file_written_before_there_were_digests_is_read(run):
    path = run.path / "run.json"
    record = json.loads(path.read_text())
    del record["sha256"]
    path.write_text(json.dumps(record))
    assert run.record()["config"] == record["config"]
