"""Prepared data: made once, found again by what it is, never made of other text than planned."""

import numpy as np
import pytest

from sweeper.store.errors import UserError
from tasks.lm1b.prepare import TextSettings, folder_name, prepare
from tasks.lm1b.rows import PackedRows
from tasks.text.corpus import SPLITS, digest

SETTINGS = TextSettings(vocabulary_size=397, sequence_length=61, tokenizer_lines=500)
DATA = {"source": "sample", "sentences": 1009}


def contents(folder):
    return {
        path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def test_preparing_is_deterministic_and_done_once(tmp_path):
    first = prepare(tmp_path / "a", DATA, SETTINGS)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "a").rglob("*")}
    assert prepare(tmp_path / "a", DATA, SETTINGS) == first
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "a").rglob("*")} == before
    assert prepare(tmp_path / "b", DATA, SETTINGS) == first
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    assert sum(first[split]["sentences"] for split in SPLITS) == DATA["sentences"]


def test_work_that_was_broken_off_is_taken_up(tmp_path):
    prepare(tmp_path / "whole", DATA, SETTINGS)
    prepare(tmp_path / "broken", DATA, SETTINGS)
    (tmp_path / "broken" / "validation" / "rows.json").unlink()
    (tmp_path / "broken" / "test" / "rows.json").unlink()
    (tmp_path / "broken" / "test" / "rows.uint16").write_bytes(b"torn")
    (tmp_path / "broken" / "validation" / "rows.uint16.part").write_bytes(b"torn")
    prepare(tmp_path / "broken", DATA, SETTINGS)
    assert contents(tmp_path / "whole") == contents(tmp_path / "broken")


def test_every_piece_is_a_row_of_the_embedding(tmp_path):
    prepare(tmp_path, DATA, SETTINGS)
    for split in SPLITS:
        rows = PackedRows(tmp_path / split)
        assert rows.rows(np.arange(len(rows)))["targets"].max() < SETTINGS.vocabulary_size


def test_text_that_changed_since_the_plan_is_refused(tmp_path):
    root = tmp_path / "text"
    root.mkdir()
    (root / "a.txt").write_text("".join(f"line {number} .\n" for number in range(700)))
    data = {"source": "local", "root": str(root)}
    data["digest"] = digest(data)
    with (root / "a.txt").open("a") as file:
        file.write("one more .\n")
    with pytest.raises(UserError, match=r"data\.digest=sha256"):
        prepare(tmp_path / "prepared", data, SETTINGS)
    assert not (tmp_path / "prepared").exists()


def test_the_folder_is_named_by_text_and_shape():
    names = {
        folder_name(text, TextSettings(size, length, lines))
        for text in ("sha256:1", "sha256:2")
        for size in (397, 401)
        for length in (61, 67)
        for lines in (500, 503)
    }
    assert len(names) == 16
    assert folder_name("sha256:1", SETTINGS) == folder_name("sha256:1", SETTINGS)
