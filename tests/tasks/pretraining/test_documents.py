"""Tests of documents: where they end, in which split they are, and that no line is lost."""

import itertools
from collections import Counter
from pathlib import Path
from tempfile import TemporaryFile

import numpy as np
import pytest

from tasks.pretraining.documents import (
    LONGEST,
    LONGEST_SENTENCE,
    EncodedDocuments,
    Library,
    SplitDocuments,
    documents_of,
)
from tasks.text.source import SPLITS, Counts
from tasks.text.tokenizer import load_tokenizer
from tests.tasks.jobs import config
from tests.tasks.small import PRETRAINING, local, prepared_folder

SAMPLE = config()["data"]


def read(text, rule):
    return list(documents_of(text.encode().split(b"\n"), rule, Counts()))


BLANK = "It rained.\nWe stayed in.\n\n \t\nThe sun came out.\n"
FRAMED = (
    '<doc id="1" title="Ada">\nAda\n\nAda was born. She wrote.\n\n</doc>\n'
    '<doc id="2">\n\n</doc>\n<doc id="3">\nThe end.\n<doc id="4">\nAnother one.'
)
FRAMES = [["Ada", "Ada was born.", "She wrote."], ["The end."], ["Another one."]]
BROKEN = "CHAPTER I\n\nIt rained so\nhard that we\nstayed in. We\nread.\n\nThen Mr.\nHyde came."
CHAPTER = [
    "CHAPTER I",
    "It rained so hard that we stayed in.",
    "We read.",
    "Then Mr. Hyde came.",
]


@pytest.mark.parametrize(
    ("text", "rule", "documents"),
    [
        # Blank lines.
        (BLANK, "blank_line", [["It rained.", "We stayed in."], ["The sun came out."]]),
        (BLANK, "file", [["It rained.", "We stayed in.", "The sun came out."]]),
        (FRAMED, "blank_line", FRAMES),  # frames
        (FRAMED, "file", FRAMES),  # frames in a file
        (BROKEN, "file", [CHAPTER]),  # sentences over lines
    ],
)
def test_documents_are_parted_by_the_rule_and_always_by_frames(text, rule, documents):
    assert read(text, rule) == documents


def test_a_book_is_several_documents_that_are_all_of_it_in_order():
    lines = [f"Sentence number {number}." for number in range(2 * LONGEST + 7)]
    documents = read("\n".join(lines), "file")
    assert [len(document) for document in documents] == [LONGEST, LONGEST, 7]
    assert [sentence for document in documents for sentence in document] == lines


def books(folder, numbers, name="text.txt"):
    (folder / name).write_text("\n\n".join(f"Book {n}.\nIt ended." for n in numbers))


def in_splits(data, folder=Path("none")):
    """Return the documents of a text, each with its split. A sample is written to `folder`."""
    texts = Library().texts(data, folder)
    with TemporaryFile() as file:
        documents = SplitDocuments(*texts, "blank_line", file)
        return [(at, text.decode().split("\n")) for at, text in documents]


def test_equal_documents_are_in_one_split_and_the_shares_are_exact(tmp_path):
    books(tmp_path, range(1000), "a.txt")
    books(tmp_path, range(0, 1000, 3), "b.txt")  # every third document again
    splits = {(split, document[0]) for split, document in in_splits(local(tmp_path))}
    shares = {"train": 940, "validation": 10, "test": 50}
    assert Counter(split for split, _ in splits) == shares


def test_a_split_of_the_sources_own_is_left_as_it_is(tmp_path):
    books(tmp_path, range(100))
    books(tmp_path, range(100, 107), "test.txt")
    found = in_splits(local(tmp_path))
    shares = {"train": 98, "validation": 2, "test": 7}
    assert Counter(split for split, _ in found) == shares
    expected = [("test", f"Book {n}.") for n in range(100, 107)]
    assert [(split, document[0]) for split, document in found[100:]] == expected


def test_documents_of_one_sentence_are_told(tmp_path, capsys):
    """A random document always follows them, so predicting the next sentence is trivial."""
    lines = [f"Sentence {n}." + "\n" * (n % 7 > 0) for n in range(100)]
    (tmp_path / "text.txt").write_text("\n".join(lines))
    in_splits(local(tmp_path))
    words = f"note: {tmp_path}: 82% of the documents have only one sentence. "
    assert capsys.readouterr().err.startswith(words)


def prepared(outputs, text):
    """Prepare the documents of a text, and return the folder of the prepared data."""
    return prepared_folder(outputs, {**PRETRAINING, "data": text})


def test_every_sentence_is_there_in_order_in_the_split_of_its_document(tmp_path):
    folder = prepared(tmp_path, SAMPLE)
    tokenizer = load_tokenizer(folder / "tokenizer.json")
    expected = {split: [] for split in SPLITS}
    for split, document in in_splits(SAMPLE, folder / "sample"):
        encodings = tokenizer.encode_batch(document, add_special_tokens=False)
        expected[split].append([encoding.ids for encoding in encodings])
    for split in SPLITS:
        encoded = EncodedDocuments(folder / split)
        pieces = encoded.pieces_N.tolist()
        starts, documents = encoded.sentences_S.tolist(), encoded.documents_C.tolist()
        sentences = [pieces[a:b] for a, b in itertools.pairwise(starts)]
        found = [sentences[a:b] for a, b in itertools.pairwise(documents)]
        assert found == expected[split]
        assert len(found) == encoded.about["documents"] > 1
        assert encoded.pieces_N.max() < encoded.about["vocabulary_size"] <= 307


def written(folder, documents):
    folder.mkdir()
    (folder / "text.txt").write_text("\n\n".join(documents))
    return local(folder)


def test_lines_are_counted_and_the_tokenizer_learns_from_no_document_that_is_kept_back(
    tmp_path,
):
    documents = [f"{chr(0x4E00 + n)} story {n}.\nIt was told." for n in range(101)]
    data = written(tmp_path / "text", documents)
    folder = prepared(tmp_path, data)
    vocabulary = load_tokenizer(folder / "tokenizer.json").get_vocab()
    for split, document in in_splits(data):
        assert (document[0][0] in vocabulary) == (split == "train")
    about = EncodedDocuments(folder / "train").about
    assert (about["lines"], about["skipped"]) == (302, {"empty": 100})


def test_a_sentence_without_end_goes_on_as_another(tmp_path):
    long = " ".join(["word"] * (2 * LONGEST_SENTENCE + 3))
    data = written(tmp_path / "text", [f"{long} {n}." for n in range(7)])
    folder = prepared(tmp_path, data)
    for split in SPLITS:
        encoded = EncodedDocuments(folder / split)
        lengths = np.diff(encoded.sentences_S)
        assert lengths.max() == LONGEST_SENTENCE
        assert lengths.sum() == encoded.about["pieces"]
        assert encoded.about["sentences"] == 3 * encoded.about["documents"]
