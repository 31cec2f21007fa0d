"""Tests that packed rows have every token once, and that prepared data are found by their name."""

import itertools
import json
from collections import Counter

import numpy as np
import pytest

from tasks.lm1b.data import ABOUT, OPEN_ROWS, FirstFit, Joined, PackedRows, pack
from tasks.text.corpus import PIECES, Corpus
from tasks.text.tokenizer import END, PAD
from tests.tasks.text.test_tokenizer import BPE, LINES

LONG = "x" * 997


def pieces_of(row):
    return np.frombuffer(row, PIECES).tolist()


def pack_test(folder, lines, packer):
    """Pack a test split of these lines. Return its rows.json, and a batch of all rows.

    A lone surrogate stands for a byte that is no UTF-8.
    """
    raw = [line.encode("utf-8", "surrogateescape") for line in lines]
    others = [f"training {number}".encode() for number in range(500)]
    corpus = Corpus("lines", lambda: iter([others]), lambda: iter([raw]))
    pack(corpus, folder, BPE, packer)
    rows = PackedRows(folder / "test")
    about = json.loads((folder / "test" / ABOUT).read_text())
    return about, rows.rows(np.arange(len(rows)))


def encode_sentences(texts):
    """Return the token ids of each text from `tokenizers`, followed by END."""
    encodings = BPE.encode_batch(texts, add_special_tokens=False)
    return [[*encoding.ids, END] for encoding in encodings]


def segments_of(rows, name="targets"):
    """Yield these values of each segment, found by the segment numbers alone."""
    for values, segments in zip(rows[name], rows["segments"], strict=True):
        for number in range(1, segments.max() + 1):
            yield tuple(values[segments == number])


def test_a_segment_goes_to_the_first_open_row_that_has_room():
    packer = FirstFit(10)

    def add(number, count):
        row = packer.add(np.full(count, number, PIECES).tobytes())
        return row and pieces_of(row)

    assert [add(number, 6) for number in range(2, 2 + OPEN_ROWS)] == [None] * OPEN_ROWS
    assert add(50, 4) == [2] * 6 + [50] * 4
    assert add(51, 5) is None
    assert add(52, 7) == [3] * 6
    assert add(53, 3) is None
    assert pieces_of(packer.open[0]) == [4] * 6 + [53] * 3


@pytest.mark.parametrize("length", [23, 251])
def test_a_packed_split_holds_every_sentence_and_counts_it(tmp_path, length):
    lines = [*LINES, "", LONG]
    about, batch = pack_test(tmp_path, lines, lambda: FirstFit(length))
    expected = Counter(
        tuple(pieces[start : start + length])
        for pieces in encode_sentences([*LINES, LONG])
        for start in range(0, len(pieces), length)
    )
    assert Counter(segments_of(batch)) == expected
    assert about["sentences"] == (batch["targets"] == END).sum() == len(LINES) + 1
    assert about["tokens"] == (batch["targets"] != PAD).sum()
    assert about["segments"] == batch["segments"].max(axis=1).sum()
    assert about["words"] == sum(len(line.split()) for line in LINES) + 1
    assert about["lines"] == about["sentences"] + 1
    assert about["skipped"] == {"empty": 1}
    assert about["fill"] == pytest.approx(about["tokens"] / batch["targets"].size)


def test_every_segment_begins_anew(tmp_path):
    _, batch = pack_test(tmp_path, [*LINES, "x" * 44], lambda: FirstFit(22))
    names = ("tokens", "targets", "positions")
    segments = [*zip(*(segments_of(batch, name) for name in names), strict=True)]
    assert {1, 22} < {len(targets) for _, targets, _ in segments}
    for tokens, targets, positions in segments:
        assert tokens == (PAD, *targets[:-1])
        assert positions == tuple(range(len(targets)))
    assert not any(batch[name][batch["segments"] == 0].any() for name in names)


def test_joined_sentences_fill_every_row_and_see_all_that_is_before_them_in_it(
    tmp_path,
):
    about, batch = pack_test(tmp_path, [*LINES, LONG], lambda: Joined(31))
    text = [*itertools.chain(*encode_sentences([*LINES, LONG]))]
    names = ("tokens", "targets", "segments", "positions")
    tokens, targets, segments, positions = (batch[name] for name in names)
    rest = [PAD] * (-len(text) % 31)
    assert targets.ravel().tolist() == text + rest
    assert len(targets) == about["rows"] == about["segments"]
    assert (segments == (targets != PAD)).all()
    assert not tokens[segments == 0].any()
    assert not tokens[:, 0].any()
    whole = segments.all(axis=1)
    assert whole[:-1].all()
    assert (positions[whole] == np.arange(31)).all()
    assert (tokens[whole, 1:] == targets[whole, :-1]).all()


def test_bytes_that_are_no_utf_8_are_told(tmp_path, capsys):
    pack_test(tmp_path, ["don\udc92t", "do"], lambda: FirstFit(31))
    told = "note: lines: 1 line contained invalid UTF-8, which was replaced; "
    assert capsys.readouterr().err.startswith(told)
