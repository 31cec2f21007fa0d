"""Data sets are found by their official names, told by what they hold, divided without a leak."""

import json

import pytest

from sweeper.store.errors import UserError
from tasks.mnli.task import MultiNLI
from tasks.squad.task import SQuAD
from tasks.synthetic import samples
from tasks.synthetic.samples import World
from tests.tasks.jobs import config

HUB = {"path": "some/set", "name": None, "revision": "c0ffee"}


def _data(**changes):
    return {**config()["data"], "source": "local", "hub": HUB, **changes}


def _folder(root, *names):
    """Files of pairs: `<name> <number>` is the premise of each of their five."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [
            {"premise": f"{path.name} {n}", "hypothesis": "h", "label": n % 3} for n in range(5)
        ]
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return root


def _premises(root):
    splits = MultiNLI().load(_data(root=str(root)), root / "sample")[0]
    return {split: {pair.premise.split()[0] for pair in pairs} for split, pairs in splits.items()}


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
    found = _premises(_folder(tmp_path, *train, *test, *others))
    assert found["train"] | found["validation"] == {name.split("/")[-1] for name in train}
    assert found["test"] == {"multinli_1.0_dev_matched.jsonl"}


def test_of_a_split_in_two_formats_one_is_read(tmp_path):
    root = _folder(tmp_path, "train.jsonl", "dev_matched.first3.jsonl")
    (tmp_path / "train.tsv").write_text("not a table of pairs\n")
    (tmp_path / "dev_matched.txt").write_text("nor this\n")
    assert _premises(root)["train"] == {"train.jsonl"}


@pytest.mark.parametrize("made", [True, False], ids=["empty", "absent"])
@pytest.mark.parametrize("data_set", [MultiNLI(), SQuAD()], ids=["mnli", "squad"])
def test_a_folder_without_the_files_is_one_sentence(tmp_path, data_set, made):
    root = tmp_path / "data"
    if made:
        root.mkdir()
    with pytest.raises(UserError, match=r"data.root=.*expected a folder with train") as caught:
        data_set.digest(_data(root=str(root)))
    assert "\n" not in str(caught.value)


def test_the_digest_is_what_the_files_hold(tmp_path):
    first = _folder(tmp_path / "a", "train.jsonl", "dev_matched.jsonl")
    second = _folder(tmp_path / "b", "train.jsonl", "dev_matched.jsonl", "notes.jsonl")
    digests = [MultiNLI().digest(_data(root=str(root))) for root in (first, second)]
    assert digests[0] == digests[1]
    with (second / "train.jsonl").open("a") as file:
        file.write("\n")
    assert MultiNLI().digest(_data(root=str(second))) != digests[0]


def test_training_and_validation_share_no_premise_and_no_paragraph(tmp_path):
    for data_set, sample in ((MultiNLI(), samples.MNLI), (SQuAD(), samples.SQUAD)):
        root = tmp_path / data_set.title
        sample.write(root, 1009, World(5, 23))
        splits = data_set.load(_data(root=str(root)), tmp_path / "unused")[0]
        train, validation = (
            {data_set.group(example) for example in splits[split]}
            for split in ("train", "validation")
        )
        assert validation
        assert not train & validation
        assert len(validation) == round(0.02 * len(train | validation))


@pytest.mark.parametrize(
    ("label", "told"),
    [
        (-1, r"nothing is left to train on \(3 x train.jsonl: no gold"),
        (1, "single training text"),
    ],
)
def test_what_cannot_be_trained_on_is_an_error_that_says_why(tmp_path, label, told):
    root = _folder(tmp_path, "train.jsonl", "dev_matched.jsonl")
    row = {"premise": "p", "hypothesis": "h", "label": label}
    (root / "train.jsonl").write_text(3 * f"{json.dumps(row)}\n")
    with pytest.raises(UserError, match=told):
        MultiNLI().load(_data(root=str(root)), tmp_path / "sample")


def test_many_dropped_rows_are_said_on_stderr(tmp_path, capsys):
    root = _folder(tmp_path, "train.jsonl", "dev_matched.jsonl")
    with (root / "train.jsonl").open("a") as file:
        file.write("{\n")
    rows = MultiNLI().load(_data(root=str(root)), tmp_path / "sample")[1]
    assert rows["train"]["dropped"] == {"train.jsonl: not JSON": 1}
    assert rows["train"]["read"] == rows["train"]["kept"] + 1 == 6
    said = "note: MNLI, train: only 5 of 6 rows are kept (83.3 %): 1 train.jsonl: not JSON.\n"
    assert capsys.readouterr().err == said


def test_pairs_come_from_the_hub(hub, tmp_path):
    labels = [n % 4 - 1 for n in range(1009)]
    texts = [f"p{n}" for n in range(1009)]
    columns = {"premise": texts, "hypothesis": texts, "label": labels, "genre": texts}
    asked = hub({"train": columns, "validation_matched": columns, "test_matched": columns})
    splits, rows = MultiNLI().load(_data(source="hub", digest="hub:some/set@c0ffee"), tmp_path)
    assert asked == [("some/set", {"name": None, "revision": "c0ffee"})]
    assert [pair.label for pair in splits["test"]] == [n for n in labels if n >= 0]
    assert rows["test"]["dropped"] == {"validation_matched: no gold label": 253}


def test_questions_come_from_the_hub(hub, tmp_path):
    columns = {
        "id": [f"q{n}" for n in range(7)],
        "title": ["t"] * 7,
        "context": [f"gold {n}" for n in range(7)],
        "question": ["What?"] * 7,
        "answers": [{"text": ["gold"], "answer_start": [0]}] * 7,
    }
    hub({"train": columns, "validation": columns})
    splits, _ = SQuAD().load(_data(source="hub"), tmp_path)
    assert [question.id for question in splits["test"]] == [f"q{n}" for n in range(7)]
    assert {question.start for question in splits["train"]} == {0}


def test_a_hub_set_without_the_dev_split_is_one_sentence(hub, tmp_path):
    hub({"train": {"premise": ["p"], "hypothesis": ["h"], "label": [0]}})
    with pytest.raises(UserError, match="a data set with a split validation_matched"):
        MultiNLI().load(_data(source="hub"), tmp_path)
