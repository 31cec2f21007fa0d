"""Tests that the three sources of a text give equal splits, counts and messages."""

from pathlib import Path

import pytest

from tasks.text.corpus import Corpora, Corpus
from tasks.text.source import SPLITS, Counts
from tests.refusals import refusal
from tests.tasks.jobs import config
from tests.tasks.small import local, prepared_folder

CORPORA = Corpora()
HUB = {"path": "someone/corpus", "name": None, "revision": "abc123"}
ON_HUB = {"source": "hub", "hub": HUB}


def write(root, files):
    for name, lines in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("".join(f"{line}\n" for line in lines))
    return root


def sentences(count, start=0):
    return [f"sentence {start + number} , as it stands ." for number in range(count)]


def everything(splits):
    return [line for lines in splits.values() for line in lines]


def read(data, **options):
    """Return the kept lines of each split, and the counts of all lines."""
    corpus = Corpus(*CORPORA.texts(data, Path("unused")), **options)
    counts = {split: Counts() for split in SPLITS}
    splits = {split: [] for split in SPLITS}
    for split, line in corpus.lines():
        if counts[split].add(line):
            splits[split].append(line.text)
    return splits, counts


OFFICIAL = "1-billion-word-language-modeling-benchmark-r13output/"
SHUFFLED = "monolingual.tokenized.shuffled/news.en"
TRAIN = f"{OFFICIAL}training-{SHUFFLED}-00001-of-00100"
TEST = f"{OFFICIAL}heldout-{SHUFFLED}.heldout-00000-of-00050"


def test_a_folder_is_divided_without_loss_or_overlap(tmp_path):
    files = {"b.txt": sentences(3000), "a/c.txt": [*sentences(2000, 3000), "", ""]}
    root = write(tmp_path, files)
    splits, counts = read(local(root))
    assert sorted(everything(splits)) == sorted(sentences(5000))
    assert sum(count.total for count in counts.values()) == 5002
    assert all(counts[split].kept == len(lines) for split, lines in splits.items())
    assert 0.01 < len(splits["test"]) / 5000 < 0.03
    assert 0.005 < len(splits["validation"]) / 5000 < 0.015
    assert splits == read(local(root))[0]


def test_a_block_that_begins_with_an_empty_line_is_divided_by_its_first_text(tmp_path):
    lines = sentences(7000)
    # Blocks of 10 begin with an empty line.
    spaced = [one for line in lines for one in ("", line)]
    found, _ = read(local(write(tmp_path, {"book.txt": spaced})), together=10)
    assert sorted(everything(found)) == sorted(lines)
    assert all(found.values())
    for own in found.values():
        places = map(lines.index, own[::5])
        assert own == [line for place in places for line in lines[place : place + 5]]


def test_equal_lines_are_in_one_split_wherever_they_stand(tmp_path):
    lines = sentences(700)
    root = write(tmp_path, {"a.txt": lines, "b.txt": lines[::-1], "c.txt": lines[::3]})
    splits, _ = read(local(root))
    found = {(line, split) for split in SPLITS for line in splits[split]}
    assert len(found) == len(lines)


def test_the_test_split_of_lm1b_is_kept_and_other_files_are_not_read(tmp_path):
    files = {TRAIN: sentences(500), TEST: sentences(7, 500), "notes.txt": ["no"]}
    splits, _ = read(local(write(tmp_path, files)))
    assert splits["test"] == sentences(7, 500)
    assert sorted(splits["train"] + splits["validation"]) == sorted(sentences(500))


def test_the_digest_says_what_the_text_is(tmp_path):
    def made(name, files):
        return CORPORA.digest(local(write(tmp_path / name, files)))

    text = {"a.txt": sentences(11), "b/c.txt": sentences(7)}
    first = made("one", text)
    assert first == made("two", text)
    assert first == made("with_notes", text | {"x.md": ["no text"]})
    changed = [
        made("content", {"a.txt": sentences(11, 1), "b/c.txt": sentences(7)}),
        made("swapped", {"a.txt": sentences(7), "b/c.txt": sentences(11)}),
        made("moved_line", {"a.txt": sentences(12), "b/c.txt": sentences(6)}),
        CORPORA.digest(config()["data"]),
        CORPORA.digest(ON_HUB),
        CORPORA.digest({**ON_HUB, "hub": HUB | {"revision": "def456"}}),
    ]
    assert len({first, *changed}) == len(changed) + 1


def test_a_dataset_in_a_local_folder_is_another_text_once_its_files_change(tmp_path):
    folder = {"path": str(tmp_path), "name": None, "revision": None}
    data = {"source": "hub", "hub": folder}
    found = []
    for text in ("one", "two"):
        (tmp_path / "train.jsonl").write_text(text)
        found.append(CORPORA.digest(data))
    assert len({*found, f"hub:{tmp_path}@main"}) == 3


@pytest.mark.parametrize("files", [{"a.png": ["x"]}, {"a.txt": []}], ids=str)
def test_a_folder_without_text_is_refused_before_anything_is_built(tmp_path, files):
    write(tmp_path, files)
    assert "data.root=" in refusal(CORPORA.digest, local(tmp_path))


def test_a_link_out_of_the_folder_is_refused_and_a_file_within_it_is_read(tmp_path):
    write(tmp_path, {"a.txt": sentences(30)})
    (tmp_path / "b.txt").symlink_to("a.txt")
    assert CORPORA.digest(local(tmp_path))
    for to in ("/etc/passwd", "/etc"):
        (tmp_path / "away").symlink_to(to)
        told = f"expected only files inside the folder, but away is a link to {to}"
        assert told in refusal(CORPORA.digest, local(tmp_path))
        (tmp_path / "away").unlink()


def test_an_empty_split_is_named(tmp_path):
    write(tmp_path, {"a.txt": [*sentences(3), "", ""]})
    told = refusal(prepared_folder, tmp_path / "outputs", {"data": local(tmp_path)})
    assert "no text in the split " in told


@pytest.mark.parametrize("has_test", [True, False])
def test_the_hub_gives_lines_of_its_text_column(hub, has_test):
    columns = {"train": ["two\nlines", None, "lone \udcff", *sentences(500)]}
    if has_test:
        columns["test"] = sentences(3, 500)
    asked = hub({name: {"text": rows} for name, rows in columns.items()})
    splits, counts = read(ON_HUB)
    assert asked == [("someone/corpus", {"name": None, "revision": "abc123"})]
    texts = everything(splits)
    assert {"two", "lines"} < set(texts)
    assert len(texts) == 503 + 3 * has_test
    assert sum(count.total for count in counts.values()) == len(texts) + 1
    assert not has_test or splits["test"] == sentences(3, 500)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        (None, "cannot be loaded (no way to the hub)"),  # no connection
        ({"test": {"text": []}}, "a split named train"),
        ({"train": {"words": []}}, "a column named text"),
    ],
)
def test_a_dataset_that_does_not_serve_is_refused(tmp_path, hub, columns, sentence):
    hub(columns)
    assert sentence in refusal(CORPORA.texts, ON_HUB, tmp_path)
