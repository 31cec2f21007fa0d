"""Tests that data sets are found by their official file names, and divided without a leak."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from tasks.mnli.dataset import LABELS, MultiNLI
from tasks.squad.dataset import SQuAD
from tests.refusals import refusal
from tests.tasks.jobs import config
from tests.tasks.small import local


def _loaded(root, data_set=MultiNLI()):  # noqa: B008 (it has no state)
    """Return the splits of a data set in a folder, and the facts about them."""
    return data_set.load(local(root), root / "unused")


def _folder(root, *names):
    """Write files of five pairs, whose premises are `<name> <number>`. Return the folder."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(_pairs(*((f"{name} {n}", n % 3) for n in range(5))))
    return root


def _pairs(*pairs):
    """Return lines of pairs with these premises and labels."""
    rows = [{"premise": p, "hypothesis": "h", "label": label} for p, label in pairs]
    return "".join(f"{json.dumps(row)}\n" for row in rows)


def test_files_are_told_by_their_official_names(tmp_path):
    train = ("multinli_1.0/multinli_1.0_train.jsonl", "train.part2.jsonl")
    test = ("multinli_1.0/multinli_1.0_dev_matched.jsonl",)
    others = (
        "multinli_1.0/multinli_1.0_dev_mismatched.jsonl",
        "__MACOSX/multinli_1.0/multinli_1.0_train.jsonl",
        ".train.jsonl",
        "dev_matched.jsonl.orig",
        "strain.jsonl",
    )
    found = MultiNLI().files(_folder(tmp_path, *train, *test, *others))
    assert (found.train, found.test) == (train, test)


@pytest.mark.parametrize("made", [True, False])
@pytest.mark.parametrize("data_set", [MultiNLI(), SQuAD()])
def test_a_folder_without_the_files_is_one_sentence(tmp_path, data_set, made):
    root = tmp_path / "data"
    if made:
        root.mkdir()
    assert "expected a folder with train" in refusal(data_set.digest, local(root))


def test_training_and_validation_share_no_premise_and_no_paragraph(tmp_path):
    for data_set in (MultiNLI(), SQuAD()):
        splits, _ = data_set.load(config()["data"], tmp_path / data_set.title)
        train, validation = (
            {example.texts()[0] for example in splits[split]}
            for split in ("train", "validation")
        )
        assert not train & validation
        assert len(validation) == round(0.02 * len(train | validation))


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ((-1, -1), "has no usable row; "),
        ((0, 1, 2), "the same first text"),
        (
            ("entailment", "neutral", "x"),
            "the train split has no row labelled contradiction; add such rows, or",
        ),
    ],
)
def test_what_cannot_be_trained_on_is_an_error_that_says_why(tmp_path, labels, told):
    root = _folder(tmp_path, "train.jsonl", "dev_matched.jsonl")
    (root / "train.jsonl").write_text(_pairs(*(("p", label) for label in labels)))
    assert told in refusal(_loaded, root)


def test_rows_that_repeat_or_are_tested_on_and_packed_files_are_noted(tmp_path, capsys):
    root = _folder(tmp_path, "train.jsonl", "dev_matched.jsonl", "train-2.jsonl.gz")
    rows = (root / "dev_matched.jsonl").read_text().splitlines(keepends=True)
    mended = rows[0].replace("dev", "d\\u0000ev")
    with (root / "train.jsonl").open("a") as file:
        file.writelines([rows[0], mended, rows[1], rows[1]])
    _loaded(root)
    left_out, odd, leaked, repeated = capsys.readouterr().err.splitlines()
    assert ": 1 file not read: train-2.jsonl.gz; " in left_out
    assert odd.startswith("note: MNLI, train: 1 row contained NUL or invalid UTF-8")
    assert "40.0% of the 5 rows of the test split (2)" in leaked
    assert "11.1% of the 9 rows of the training split (1)" in repeated


def _hub_of(hub, *orders):
    """Put three splits on the fake hub, in which the classes of `label` have these names."""
    columns = {"premise": [*"pqrs"], "hypothesis": ["h"] * 4, "label": [0, 1, 2, -1]}
    features = [{"label": SimpleNamespace(names=list(names))} for names in orders * 3]
    names = ("train", "validation_matched", "test_matched")
    hub(dict.fromkeys(names, columns | {"genre": ["g"] * 4}), features)
    of_hub = {"path": "some/set", "name": None, "revision": "c0ffee"}
    return MultiNLI().load({"source": "hub", "hub": of_hub}, Path("none"))


def test_the_hubs_names_of_classes_decide_what_a_number_means(hub):
    swapped = ["contradiction", "entailment", "neutral"]
    splits, rows = _hub_of(hub, swapped)
    assert rows["train"]["labels"] == swapped
    assert [pair.label for pair in splits["test"]] == [0, 1, 2]
    assert rows["test"]["dropped"] == {"validation_matched: no gold label": 1}
    assert "labels" not in _hub_of(hub, LABELS)[1]["train"]
    assert "has the classes [contradiction, " in refusal(_hub_of, hub, swapped, LABELS)
    told = refusal(_hub_of, hub, ["no", "yes", "perhaps"])
    assert "has the classes [no, yes, perhaps]; name the classes entail" in told


@pytest.mark.parametrize("suffix", ["json", "jsonl"])
def test_questions_come_as_lines_of_json(tmp_path, suffix):
    row = {"question": "What?", "answers": {"text": ["gold"], "answer_start": [0]}}
    rows = [json.dumps({**row, "id": n, "context": f"gold {n}"}) for n in "1234567"]
    for name in ("train", "dev"):
        lines = "\n".join([*rows, "{", "3", ""])
        (tmp_path / f"{name}.{suffix}").write_text(f"{lines}\n")
    splits, about = _loaded(tmp_path, SQuAD())
    assert [question.id for question in splits["test"]] == [*"1234567"]
    assert len(about["test"]["dropped"]) == 3
