"""Data are prepared once, found again by their folder name, and refused if they have changed."""

import shutil
from unittest.mock import Mock

import pytest

import tasks.data
import tasks.digests
from sweeper.store.code import Code
from sweeper.store.files import CHECKSUM, publish_with_checksum, read_object
from tasks.digests import DIGESTS
from tests.refusals import refusal
from tests.tasks.jobs import ended, last_word
from tests.tasks.small import SMALL, data, local, opened_data, prepared_folder

LONGER = {"task.sequence_length": 41, "task.batch_tokens": 41}
SHAPING = {
    "lm1b": [{"task.joined": True}, LONGER],
    "pretraining": [{"task.documents": "file"}],
    "mnli": [{"task.tokenizer": "documents-0"}, LONGER],
    "squad": [{"task.question_length": 11}, {"task.stride": 5}, LONGER],
}


@pytest.fixture(scope="module", params=SHAPING)
def of(request, _ready_to_fork, tmp_path_factory):
    """Return changes to a config, an outputs folder, and the folder of prepared data in it."""
    outputs, changes = tmp_path_factory.mktemp(request.param), SMALL[request.param]
    return changes, outputs, prepared_folder(outputs, changes)


# For tests that need only one task.
of_one_task = pytest.mark.parametrize("of", ["lm1b"], indirect=True)


@pytest.mark.parametrize("name", SHAPING)
def test_the_folder_is_named_by_the_text_and_by_every_key_that_shapes_it(name):
    def folder_name(changes):
        return data({**SMALL[name], **changes}).folder_name()

    changes = [
        {},
        {"data.digest": "another"},
        {"data.sentences": 997},
        {"task.vocabulary_size": 311},
        {"task.tokenizer_lines": 503},
        *SHAPING[name],
    ]
    assert len(set(map(folder_name, changes))) == len(changes)
    assert folder_name({"seed": 5, "model.heads": 5}) == folder_name({})


def test_preparing_again_changes_nothing_and_elsewhere_gives_the_same_bytes(
    of, tmp_path
):
    changes, outputs, folder = of

    def times():
        return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}

    before = times()
    assert prepared_folder(outputs, changes) == folder
    assert times() == before
    again = prepared_folder(tmp_path, changes)
    found, expected = (
        {path.relative_to(one): path.read_bytes() for path in files(one)}
        for one in (again, folder)
    )
    assert found == expected


@of_one_task
def test_without_digests_the_data_are_prepared_again(of, tmp_path):
    changes, outputs, folder = of
    copied = shutil.copytree(folder, tmp_path / "data" / folder.name)
    (copied / DIGESTS).unlink()
    damaged = max(files(copied / "test"), key=lambda path: path.stat().st_size)
    sound = damaged.read_bytes()
    damaged.write_bytes(sound[::-1])
    again, before = (opened_data(one, changes) for one in (tmp_path, outputs))
    assert again.facts == before.facts
    assert damaged.read_bytes() == sound


def test_text_that_is_not_the_planned_one_is_refused(of, tmp_path):
    changes, _, folder = of
    found, _ = data(changes).source()
    planned = {**changes, "data.digest": found}
    assert prepared_folder(tmp_path, planned).name == folder.name
    planned["data.digest"] = "other"
    refused = "data.digest=other: expected the text for which the run was planned"
    assert refusal(prepared_folder, tmp_path, planned).startswith(refused)
    assert [path.name for path in (tmp_path / "data").glob("*/")] == [folder.name]


@pytest.mark.parametrize("name", SHAPING)
def test_text_in_another_encoding_is_refused_before_it_is_read(name, tmp_path):
    root = tmp_path / "text"
    root.mkdir()
    for file in ("a.txt", "train.jsonl", "dev_matched.jsonl", "train.json", "dev.json"):
        (root / file).write_text("It rained.", encoding="utf-16")
    changes = {**SMALL[name], "data": local(root)}
    told = "is UTF-16: expected UTF-8"
    assert told in refusal(prepared_folder, tmp_path, changes)


def files(folder):
    every = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [path for path in every if path.relative_to(folder).parts[0] != "sample"]


@pytest.mark.parametrize("lost", [False, True])
def test_damage_to_any_prepared_file_is_noticed(of, lost):
    changes, outputs, folder = of
    facts = opened_data(outputs, changes).facts
    # Without digests, the data are prepared again.
    found = [path for path in files(folder) if not (lost and path.name == DIGESTS)]
    assert len(found) >= 7
    for path in found:
        before = path.read_bytes()
        path.unlink()
        if not lost:
            flipped = bytearray(before)
            flipped[len(before) // 2] ^= 1
            path.write_bytes(flipped)
        assert path.name in refusal(opened_data, outputs, changes)
        path.write_bytes(before)
    assert opened_data(outputs, changes).facts == facts


@of_one_task
def test_files_are_read_once_until_one_looks_changed(of, monkeypatch):
    changes, outputs, folder = of
    facts = opened_data(outputs, changes).facts
    read = Mock(wraps=tasks.digests.digest_of_file)
    monkeypatch.setattr(tasks.digests, "digest_of_file", read)
    assert opened_data(outputs, changes).facts == facts
    read.assert_not_called()
    touched = files(folder)[-1]
    touched.touch()
    opened_data(outputs, changes)
    read.assert_called_once_with(touched)


def test_a_text_that_changes_while_it_is_prepared_is_refused(of, tmp_path, monkeypatch):
    changes, _, _ = of
    planned = data(changes, tmp_path).source()[0]
    prepared = data({**changes, "data.digest": planned}, tmp_path)
    digests = iter([(planned, ""), ("another", "")])
    monkeypatch.setattr(prepared, "source", lambda: next(digests))
    assert "restore the old text" in refusal(prepared.prepare_data)
    assert not (prepared.folder / DIGESTS).exists()


def test_a_job_trains_on_nothing_that_was_changed(outputs):
    folder = prepared_folder(outputs)
    rows = folder / "test" / "rows.uint16"
    rows.write_bytes(bytes(rows.stat().st_size))
    word = last_word(ended(outputs, code=1))
    assert word["cause"] == "data"
    assert str(rows) in word["message"]


def test_no_prepared_data_through_a_link(outputs, tmp_path):
    folder = prepared_folder(outputs)
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    assert "symbolic link" in refusal(opened_data, outputs)


@of_one_task
@pytest.mark.parametrize(
    ("path", "change", "noticed"),
    [
        ("tasks/text/corpus.py", "EDITED = 1", True),
        ("tasks/text/corpus.py", "# a comment", False),
        ("models/block.py", "EDITED = 1", False),
    ],
)
def test_data_know_the_code_that_prepared_them(of, monkeypatch, path, change, noticed):
    changes, outputs, _ = of
    prepared = data(changes, outputs)
    assert prepared.changed_code() == []
    edit(monkeypatch, path, change)
    assert prepared.changed_code() == ([path] if noticed else [])


@of_one_task
def test_the_code_that_prepared_older_data_is_unknown(of, tmp_path, monkeypatch):
    changes, _, folder = of
    copied = shutil.copytree(folder, tmp_path / "data" / folder.name)
    digests = read_object(copied / DIGESTS)
    del digests["code"], digests[CHECKSUM]
    (copied / DIGESTS).unlink()
    publish_with_checksum(copied / DIGESTS, digests)
    edit(monkeypatch, "tasks/text/corpus.py", "EDITED = 1")
    assert opened_data(tmp_path, changes).changed_code() == []


def edit(monkeypatch, path, added):
    """Append `added` to a source file, as the process sees it."""
    code = Code.read()
    edited = {**code.files, path: code.files[path] + added.encode()}
    monkeypatch.setattr(tasks.data, "loaded_code", lambda: Code(code.root, edited))
