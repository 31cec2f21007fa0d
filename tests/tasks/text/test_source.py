"""Tests that damaged bytes raise no error, and that every skipped line is counted."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.text.source import (
    WORD_LIMIT,
    Counts,
    find_files,
    hash_files,
    note_files,
    note_repeats,
    raw_lines_of_file,
    read_line,
)
from tests.refusals import refusal


def make(folder, *names):
    """Make files that contain their names."""
    for name in names:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(name)


def lines_of(folder, content):
    path = folder / "file.txt"
    path.write_bytes(content)
    return map(read_line, raw_lines_of_file(path))


@pytest.mark.parametrize("letter", "aé字-= \u3000")
def test_a_word_beyond_all_words_is_skipped_and_counted(letter):
    longest = f"a{letter * (WORD_LIMIT - 3)}b c"
    assert read_line(longest.encode()).text == longest
    line = read_line(f"a,{letter * (WORD_LIMIT + 1)}b".encode())
    assert (line.text, line.skip) == ("", "too_long")


def test_reasons_are_counted_by_name(tmp_path):
    content = (
        b"\xef\xbb\xbffirst\r\n\r\n<doc id=1>\nb\xff\nc\0\n" + b"y" * 10**7 + b"\nlast"
    )
    counts, lines = Counts(), lines_of(tmp_path, content)
    texts = [line.text for line in lines if counts.add(line)]
    assert texts == ["first", "b\ufffd", "c\ufffd", "last"]
    assert counts.skipped == {"empty": 1, "markup": 1, "too_long": 1}
    assert counts.repaired == {"invalid_utf8": 1, "nul": 1}


FRENCH = "La fenêtre de la petite mère était fermée.\n" * 50


def test_other_encodings_than_utf_8_are_refused(tmp_path):
    """tests/tasks/test_prepare.py refuses UTF-16."""
    (tmp_path / "file.txt").write_text(FRENCH, encoding="latin-1")
    assert "save it as UTF-8" in refusal(hash_files, find_files(tmp_path))


def test_a_damaged_letter_is_no_other_encoding(tmp_path):
    damaged = FRENCH.encode() + b"La fen\xeatre.\n"
    (tmp_path / "file.txt").write_bytes(damaged)
    assert hash_files(find_files(tmp_path))


@pytest.mark.parametrize(
    "name",
    [
        "test.txt",
        "wiki.test.tokens",
        "TEST.txt",
        "test/a.txt",
        "test-00000-of-00001.txt",
        "x_test.txt",
        "eval.txt",
        "evaluation/a.txt",
        "my testing 2.txt",
    ],
)
def test_a_test_file_of_a_folder_is_not_trained_on(tmp_path, name):
    make(tmp_path, "wiki.train.tokens", name)
    found = find_files(tmp_path)
    assert (found.train, found.test) == (("wiki.train.tokens",), (name,))
    # Version 0.1.0 also tested on these two files, so the digest has not changed.
    as_before = hash_files(replace(found, train=(*found.train, name), test=()))
    assert (hash_files(found) == as_before) == (name in ("test.txt", "test/a.txt"))


@pytest.mark.parametrize(
    ("name", "is_text"),
    [
        ("notice board.txt", True),
        ("licensed.txt", True),
        ("README.txt", False),
        ("license-mit.txt", False),
        ("NOTICE", False),
    ],
)
def test_files_about_the_text_are_left_out_by_their_whole_name(tmp_path, name, is_text):
    make(tmp_path, "a.txt", name)
    assert (name in find_files(tmp_path).train) == is_text


def test_files_that_are_left_out_and_equal_files_are_named(tmp_path, capsys):
    left_out = ("b.txt.gz", "c.jsonl", "val.txt")
    make(tmp_path, "a.txt", *left_out, "README.md", ".hidden.txt")
    note_files(find_files(tmp_path))
    assert capsys.readouterr().err == (
        f"note: {tmp_path}: 3 files not read: b.txt.gz, c.jsonl, val.txt; "
        "if a file contains text, unpack or rename it.\n"
    )
    for name in left_out:
        (tmp_path / name).unlink()
    (tmp_path / "test.txt").write_text("a.txt")
    make(tmp_path, "z.txt")  # another text of the same size
    note_files(find_files(tmp_path))
    said = "files with equal content: a.txt, test.txt; keep one of each."
    assert capsys.readouterr().err == f"note: {tmp_path}: {said}\n"


def test_few_repeated_or_leaked_items_are_usual(capsys):
    """tests/tasks/fine_tuning/test_dataset.py tests the notes on more of them."""
    note_repeats("mine", "line", range(100), range(100, 120))
    note_repeats("mine", "line", [*range(99), 0], [])  # 1 % is usual
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    "name",
    "wiki.valid.tokens Validation.txt valid/a.txt val.txt dev.txt my_dev.txt "
    "validation-00000-of-00001.txt".split(),
)
def test_a_validation_file_is_left_out_if_there_is_other_text(tmp_path, name):
    make(tmp_path, name, "invalid.txt")
    assert find_files(tmp_path).names == ["invalid.txt"]
    (tmp_path / "invalid.txt").unlink()
    assert find_files(tmp_path).train == (name,)


any_text = given(st.text(st.characters(exclude_categories=[])))


@any_text
def test_what_is_kept_can_be_written_and_is_kept_again(text):
    kept = read_line(text.encode("utf-8", "surrogatepass")).text
    assert kept.encode().decode() == kept
    assert "\0" not in kept
    assert read_line(kept.encode()).text == kept
