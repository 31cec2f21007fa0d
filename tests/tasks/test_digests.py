"""Prepared data that are not what was prepared are refused, by the name of the file."""

import os
import shutil

import pytest

from sweeper.store.errors import UserError
from tasks.parse import parse
from tasks.prepare import DIGESTS, open_data, prepare, task_of
from tests.tasks.fine_tuning_configs import MNLI, PRETRAINING, SQUAD, fine_tuning
from tests.tasks.jobs import config, freeze, last_word, run_job

CONFIGS = [config(), *(fine_tuning(task) for task in (PRETRAINING, MNLI, SQUAD))]


@pytest.fixture(scope="module", params=CONFIGS, ids=lambda one: one["task"]["name"])
def of(request, _ready_to_fork, tmp_path_factory):
    """A config, an outputs folder with its prepared data, and where these lie."""
    outputs = tmp_path_factory.mktemp(request.param["task"]["name"])
    return request.param, outputs, prepare(task_of(parse(request.param)), outputs)


def files(folder):
    every = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [path for path in every if path.relative_to(folder).parts[0] != "sample"]


def test_one_bit_of_any_prepared_file_is_noticed(of):
    run, outputs, folder = of
    facts = open_data(task_of(parse(run)), outputs)
    found = files(folder)
    assert len(found) >= 8
    for path in found:
        before = path.read_bytes()
        place = len(before) // 2
        path.write_bytes(before[:place] + bytes([before[place] ^ 1]) + before[place + 1 :])
        with pytest.raises(UserError, match=path.name):
            open_data(task_of(parse(run)), outputs)
        path.write_bytes(before)
    assert open_data(task_of(parse(run)), outputs) == facts


def test_splits_that_changed_places_are_noticed(of):
    run, outputs, folder = of
    facts = open_data(task_of(parse(run)), outputs)
    _exchange(folder / "test", folder / "validation")
    with pytest.raises(UserError, match="is not as it was prepared"):
        open_data(task_of(parse(run)), outputs)
    _exchange(folder / "test", folder / "validation")
    assert open_data(task_of(parse(run)), outputs) == facts


def test_a_pipe_in_place_of_rows_holds_nobody_up(of):
    run, outputs, folder = of
    path = files(folder)[-1]
    path.rename(folder / "away")
    os.mkfifo(path)
    with pytest.raises(UserError, match=path.name):
        open_data(task_of(parse(run)), outputs)
    path.unlink()
    (folder / "away").rename(path)


def _exchange(one, other):
    away = one.with_name("away")
    one.rename(away)
    other.rename(one)
    away.rename(other)


def test_a_job_trains_on_nothing_that_was_changed(outputs):
    run = freeze(outputs)
    folder = prepare(task_of(parse(config())), outputs)
    rows = folder / "test" / "rows.uint16"
    rows.write_bytes(bytes(rows.stat().st_size))
    assert run_job(run) == 1
    assert last_word(run)["cause"] == "data"
    assert str(rows) in last_word(run)["message"]


def test_a_result_says_which_data_it_is_of(outputs):
    run = freeze(outputs, {"trainer.steps": 1})
    assert run_job(run) == 0
    result = run.result()
    assert result["data"]["sha256"] == open_data(task_of(parse(config())), outputs)["sha256"]
    other = task_of(parse(config({"task.sequence_length": 29, "task.batch_tokens": 29})))
    assert open_data(other, outputs)["sha256"] != result["data"]["sha256"]


def test_other_prepared_data_under_the_name_are_noticed(outputs):
    folder = prepare(task_of(parse(config())), outputs)
    other = config({"task.vocabulary_size": 311})
    shutil.rmtree(folder)
    prepare(task_of(parse(other)), outputs).rename(folder)
    with pytest.raises(UserError, match=DIGESTS):
        open_data(task_of(parse(config())), outputs)


def test_what_an_earlier_version_prepared_is_taken_as_it_lies(outputs):
    folder = prepare(task_of(parse(config())), outputs)
    facts = open_data(task_of(parse(config())), outputs)
    before = {path: path.stat().st_mtime_ns for path in files(folder)}
    (folder / DIGESTS).unlink()
    assert open_data(task_of(parse(config())), outputs) == facts
    del before[folder / DIGESTS]
    assert before.items() <= {path: path.stat().st_mtime_ns for path in files(folder)}.items()


def test_no_prepared_data_through_a_link(outputs, tmp_path):
    folder = prepare(task_of(parse(config())), outputs)
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match="no symbolic link"):
        open_data(task_of(parse(config())), outputs)
