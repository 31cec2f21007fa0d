"""Prepared data: made once, found again by what it is, never made of other text than planned."""

import numpy as np
import pytest

from sweeper.store.errors import UserError
from tasks.data import SPLITS
from tasks.lm1b.data import PackedRows, PackedText
from tasks.parse import parse
from tasks.text.corpus import Corpora
from tests.tasks.jobs import config

KEYS = {"vocabulary_size": 397, "sequence_length": 61, "tokenizer_lines": 500}
SENTENCES = 1009


def packed(data=None, **keys):
    task = {"name": "lm1b", "batch_tokens": 0, **KEYS, **keys}
    task["batch_tokens"] = 3 * task["sequence_length"]
    section = {**config()["data"], "sentences": SENTENCES, **(data or {})}
    return PackedText(parse(config({"task": task, "data": section})))


def prepared(folder):
    data = packed()
    data.prepare(folder)
    return data.open(folder)


def contents(folder):
    return {
        path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_preparing_is_deterministic_and_done_once(tmp_path):
    first = prepared(tmp_path / "a")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "a").rglob("*")}
    assert prepared(tmp_path / "a") == first
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "a").rglob("*")} == before
    assert prepared(tmp_path / "b") == first
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert (
        sum(PackedRows(tmp_path / "a" / split).about["sentences"] for split in SPLITS) == SENTENCES
    )


def test_work_that_was_broken_off_is_taken_up(tmp_path):
    prepared(tmp_path / "whole")
    prepared(tmp_path / "broken")
    (tmp_path / "broken" / "validation" / "rows.json").unlink()
    (tmp_path / "broken" / "test" / "rows.json").unlink()
    (tmp_path / "broken" / "test" / "rows.uint16").write_bytes(b"torn")
    (tmp_path / "broken" / "validation" / ".rows.uint16.0123.tmp").write_bytes(b"torn")
    prepared(tmp_path / "broken")
    assert contents(tmp_path / "whole") == contents(tmp_path / "broken")


def test_every_piece_is_a_row_of_the_embedding(tmp_path):
    prepared(tmp_path)
    for split in SPLITS:
        rows = PackedRows(tmp_path / split)
        assert rows.rows(np.arange(len(rows)))["targets"].max() < KEYS["vocabulary_size"]


def test_text_that_changed_since_the_plan_is_refused(tmp_path):
    root = tmp_path / "text"
    root.mkdir()
    (root / "a.txt").write_text("".join(f"line {number} .\n" for number in range(700)))
    data = {"source": "local", "root": str(root)}
    data["digest"] = Corpora().digest(data)
    with (root / "a.txt").open("a") as file:
        file.write("one more .\n")
    with pytest.raises(UserError, match=r"data\.digest=sha256"):
        packed(data).prepare(tmp_path / "prepared")
    assert not (tmp_path / "prepared").exists()


def test_the_folder_is_named_by_text_and_shape():
    names = {
        packed(
            {"digest": text}, vocabulary_size=size, sequence_length=length, tokenizer_lines=lines
        ).folder_name()
        for text in ("sha256:1", "sha256:2")
        for size in (397, 401)
        for length in (61, 67)
        for lines in (500, 503)
    }
    assert len(names) == 16
    assert packed({"digest": "sha256:1"}).folder_name() in names
