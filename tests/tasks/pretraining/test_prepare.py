"""Prepared documents: the same bytes for the same text, whole or not at all, nothing lost."""

import itertools

import numpy as np
import pytest

from sweeper.store.errors import UserError
from tasks.data import SPLITS
from tasks.parse import parse
from tasks.pretraining.data import MaskedDocuments
from tasks.pretraining.documents import LONGEST_SENTENCE, EncodedDocuments, Library
from tasks.text.tokenizer import load_tokenizer
from tests.tasks.pretraining_job import small

KEYS = {"vocabulary_size": 307, "tokenizer_lines": 997, "documents": "blank_line"}
SAMPLE = {"source": "sample", "root": None, "hub": {}, "sentences": 1009}
SAMPLE |= {"competitors": 5, "directions": 23, "digest": None}


def masked(text, **keys):
    own = {f"task.{key}": value for key, value in {**KEYS, **keys}.items()}
    hub = {"path": None, "name": None, "revision": None}
    return MaskedDocuments(parse(small({**own, "data": {**text, "hub": hub}})))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outputs") / "documents"
    masked(SAMPLE).prepare(folder)
    return folder


def contents(folder):
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_preparing_twice_gives_the_same_bytes(folder, tmp_path):
    masked(SAMPLE).prepare(tmp_path / "again")
    assert contents(tmp_path / "again") == contents(folder)
    assert len(contents(folder)) == 3 * 4 + 3  # arrays, tokenizer with its hash, sample


def test_what_is_prepared_is_left_alone(folder):
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    masked(SAMPLE).prepare(folder)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == before


def test_every_sentence_is_there_in_order_in_the_split_of_its_document(folder):
    tokenizer = load_tokenizer(folder / "tokenizer.json")
    documents = Library().open(SAMPLE, "blank_line", folder / "sample")
    thresholds = documents.thresholds()
    expected = {split: [] for split in SPLITS}
    for document in documents.read():
        ids = [e.ids for e in tokenizer.encode_batch(document, add_special_tokens=False)]
        expected[thresholds.of(document)].append(ids)
    for split in SPLITS:
        encoded = EncodedDocuments(folder / split)
        assert len(expected[split]) == encoded.about["documents"] > 1
        for number, document_ids in enumerate(expected[split]):
            first, end = encoded.documents_C[number : number + 2]
            bounds = itertools.pairwise(encoded.sentences_S[first : end + 1].tolist())
            assert [encoded.pieces_N[a:b].tolist() for a, b in bounds] == document_ids
        assert encoded.pieces_N.max() < encoded.about["vocabulary_size"] <= 307


def local(folder, documents):
    folder.mkdir(exist_ok=True)
    (folder / "text.txt").write_text("\n\n".join(documents))
    return {**SAMPLE, "source": "local", "root": str(folder)}


def test_the_tokenizer_learns_from_no_document_that_is_kept_back(tmp_path):
    documents = [f"{chr(0x4E00 + n)} story {n}.\nIt was told." for n in range(101)]
    data = local(tmp_path / "text", documents)
    masked(data).prepare(tmp_path / "out")
    opened = Library().open(data, "blank_line", tmp_path)
    thresholds = opened.thresholds()
    vocabulary = load_tokenizer(tmp_path / "out" / "tokenizer.json").get_vocab()
    for document in opened.read():
        assert (document[0][0] in vocabulary) == (thresholds.of(document) == "train")


def test_a_sentence_without_end_goes_on_as_another(tmp_path):
    long = " ".join(["word"] * (2 * LONGEST_SENTENCE + 3))
    data = local(tmp_path / "text", [f"{long} {n}." for n in range(7)])
    masked(data).prepare(tmp_path / "out")
    for split in SPLITS:
        encoded = EncodedDocuments(tmp_path / "out" / split)
        lengths = np.diff(encoded.sentences_S)
        assert lengths.max() == LONGEST_SENTENCE
        assert lengths.sum() == encoded.about["pieces"]
        assert encoded.about["sentences"] == 3 * encoded.about["documents"]


def test_lines_are_counted(tmp_path):
    data = local(tmp_path / "text", [f"Book {n}.\nThe end." for n in range(11)])
    masked(data).prepare(tmp_path / "out")
    about = EncodedDocuments(tmp_path / "out" / "train").about
    assert about["lines"] == 32
    assert about["skipped"] == {"empty": 10}


def test_a_text_that_is_not_the_planned_one_is_refused(tmp_path):
    planned = {**SAMPLE, "digest": "documents:0123"}
    with pytest.raises(UserError, match="expected the text that was planned with"):
        masked(planned).prepare(tmp_path / "out")
    masked({**SAMPLE, "digest": Library().digest(SAMPLE)}).prepare(tmp_path / "out")


@pytest.mark.parametrize(
    "name", ["pieces.uint16", "sentences.int64", "documents.int64", "documents.json"]
)
def test_a_split_that_is_torn_is_told_by_name(name, folder, tmp_path):
    torn = tmp_path / "torn"
    torn.mkdir()
    for path in (folder / "train").iterdir():
        content = path.read_bytes()
        (torn / path.name).write_bytes(content[:-1] if path.name == name else content)
    if name == "documents.json":  # a JSON file without its last line end is whole
        (torn / name).write_text('{"format": 1}')
    with pytest.raises(UserError, match="torn"):
        EncodedDocuments(torn)
    (torn / name).unlink()
    with pytest.raises(UserError, match="torn"):
        EncodedDocuments(torn)


def test_the_folder_is_named_by_text_and_shape():
    names = {
        masked(
            {**SAMPLE, "digest": text}, vocabulary_size=size, tokenizer_lines=lines, documents=rule
        ).folder_name()
        for text in ("a", "b")
        for size in (307, 311)
        for lines in (997, 1009)
        for rule in ("blank_line", "file")
    }
    assert len(names) == 16
