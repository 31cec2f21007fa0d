"""Tests that packed rows have every token once, and that prepared data are found by their name."""

import itertools
import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.lm1b.data import ABOUT, OPEN_ROWS, FirstFit, Joined, PackedRows, expand, pack
from tasks.synthetic.samples import World
from tasks.synthetic.samples import sentences as generated
from tasks.text.corpus import PIECES, Corpus
from tasks.text.tokenizer import END, PAD, train_bpe

LINES = list(itertools.islice(generated(World(7, 113)), 701))
LONG = "x" * 997
TOKENIZER = train_bpe(LINES, 499)


def corpus_of(lines):
    raw = [line.encode() for line in lines]
    return Corpus("lines", lambda: iter([raw]), lambda: iter([raw]))


def packed(segments, length):
    packer = FirstFit(length)
    full = [packer.add(in_bytes(segment)) for segment in segments]
    rows = [pieces_of(row) for row in (*full, *packer.open) if row is not None]
    return np.array([row + [0] * (length - len(row)) for row in rows], np.uint16)


def in_bytes(pieces):
    return np.array(pieces, PIECES).tobytes()


def pieces_of(row):
    return np.frombuffer(row, PIECES).tolist()


def pack_test(folder, corpus, packer):
    """Pack the split "test" of a corpus into a folder, and return the content of rows.json."""
    pack(corpus, {"test": folder}, TOKENIZER, packer)
    return json.loads((folder / ABOUT).read_text())


def encode_sentences(texts):
    """Return the token ids of each text from `tokenizers`, followed by END."""
    encodings = TOKENIZER.encode_batch(texts, add_special_tokens=False)
    return [[*encoding.ids, END] for encoding in encodings]


def segments_of(rows):
    """Yield the segments of expanded rows, found by the segment numbers alone."""
    for targets, segments in zip(rows["targets"], rows["segments"], strict=True):
        for number in range(1, segments.max() + 1):
            yield tuple(targets[segments == number])


def a_sentence(length, number):
    return [*(2 + (number * 31 + place) % 97 for place in range(length - 1)), END]


@given(st.lists(st.integers(1, 13), min_size=1, max_size=80))
def test_packing_loses_and_adds_nothing_and_every_segment_begins_anew(lengths):
    sentences = [a_sentence(length, number) for number, length in enumerate(lengths)]
    rows = expand(packed(sentences, 13))
    assert Counter(segments_of(rows)) == Counter(map(tuple, sentences))
    assert (rows["targets"] != PAD).sum() == sum(lengths)
    assert ((rows["segments"] > 0) == (rows["targets"] != PAD)).all()
    names = ("tokens", "targets", "segments", "positions")
    for row in zip(*(rows[name] for name in names), strict=True):
        tokens, targets, segments, positions = row
        for number in range(1, segments.max() + 1):
            inside = segments == number
            assert list(positions[inside]) == list(range(inside.sum()))
            assert list(tokens[inside]) == [PAD, *targets[inside][:-1]]
        for values in (tokens, targets, positions):
            assert not values[segments == 0].any()


def test_a_segment_goes_to_the_first_open_row_that_has_room():
    packer = FirstFit(10)

    def add(number, count):
        row = packer.add(in_bytes([number] * count))
        return row and pieces_of(row)

    assert [add(number, 6) for number in range(2, 2 + OPEN_ROWS)] == [None] * OPEN_ROWS
    assert add(50, 4) == [2] * 6 + [50] * 4
    assert add(51, 5) is None
    assert add(52, 7) == [3] * 6
    assert add(53, 3) is None
    assert pieces_of(packer.open[0]) == [4] * 6 + [53] * 3


@pytest.mark.parametrize("length", [23, 251])
def test_a_packed_split_holds_every_sentence_and_counts_it(tmp_path, length):
    about = pack_test(tmp_path, corpus_of([*LINES, "", LONG]), lambda: FirstFit(length))
    rows = PackedRows(tmp_path)
    batch = rows.rows(np.arange(len(rows)))
    expected = Counter(
        tuple(pieces[start : start + length])
        for pieces in encode_sentences([*LINES, LONG])
        for start in range(0, len(pieces), length)
    )
    assert Counter(segments_of(batch)) == expected
    assert about == dict(rows.about)
    assert about["sentences"] == (batch["targets"] == END).sum() == len(LINES) + 1
    assert about["tokens"] == (batch["targets"] != PAD).sum()
    assert about["segments"] == batch["segments"].max(axis=1).sum()
    assert about["words"] == sum(len(line.split()) for line in LINES) + 1
    assert about["lines"] == about["sentences"] + sum(about["skipped"].values())
    assert about["skipped"] == {"empty": 1}
    assert about["fill"] == pytest.approx(about["tokens"] / (len(rows) * length))


def test_joined_sentences_fill_every_row_and_see_all_that_is_before_them_in_it(
    tmp_path,
):
    about = pack_test(tmp_path, corpus_of([*LINES, LONG]), lambda: Joined(31))
    rows = PackedRows(tmp_path)
    batch = rows.rows(np.arange(len(rows)))
    text = [*itertools.chain(*encode_sentences([*LINES, LONG]))]
    targets = batch["targets"].ravel()
    assert list(targets[: len(text)]) == text
    assert not targets[len(text) :].any()
    assert len(rows) == about["rows"] == about["segments"] == -(-len(text) // 31)
    assert (batch["segments"] == (batch["targets"] != PAD)).all()
    whole = batch["segments"].all(axis=1)
    assert whole.sum() >= len(rows) - 1
    assert (batch["positions"][whole] == np.arange(31)).all()
    assert (batch["tokens"][whole][:, 1:] == batch["targets"][whole][:, :-1]).all()
    assert not batch["tokens"][:, 0].any()


def test_bytes_that_are_no_utf_8_are_told(tmp_path, capsys):
    lines = [b"don\x92t", b"do"]
    corpus = Corpus("lines", lambda: iter([lines]), lambda: iter([lines]))
    pack_test(tmp_path, corpus, lambda: FirstFit(31))
    told = "note: lines: 1 line contained invalid UTF-8, which was replaced; "
    assert capsys.readouterr().err.startswith(told)
