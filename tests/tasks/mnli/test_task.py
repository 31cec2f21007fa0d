"""Tests of MNLI: reading pairs from every published format, and the accuracy."""

import copy
import json
from collections import Counter
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.store.runs import Run, RunStore
from tasks.export.encoder import encoder_config
from tasks.fine_tuning.dataset import Malformed, kept_rows, notes
from tasks.mnli.data import shortened
from tasks.mnli.dataset import MultiNLI, Pair
from tests.refusals import refusal
from tests.tasks.small import MNLI, PRETRAINING, SMALL, evaluated, made, opened

OFFICIAL = {
    "gold_label": "contradiction",
    "pairID": "31193c",
    "promptID": "31193",
    "sentence1": 'He "had" \u201cgold\u201d .',
    "sentence2": "He had none .",
}
PAIR = Pair('He "had" \u201cgold\u201d .', "He had none .", 2, id="31193c")

TXT = """
gold_label sentence1_binary_parse sentence2_binary_parse sentence1_parse sentence2_parse
sentence1 sentence2 promptID pairID genre label1 label2 label3 label4 label5
""".split()
GLUE = """
index promptID pairID genre sentence1_binary_parse sentence2_binary_parse sentence1_parse
sentence2_parse sentence1 sentence2 label1 gold_label
""".split()


def _read(path, lines):
    """Write these lines to a file. Return the pairs that are read, and the report."""
    path.write_bytes(b"\n".join(lines) + b"\n")
    files = {path.name: MultiNLI().read_file(path)}
    return kept_rows(files, MultiNLI().example_of)


def _tabbed(*rows):
    return ["\t".join(row).encode() for row in rows]


TXT_ROW, GLUE_ROW = (
    [OFFICIAL.get(column, "x") for column in columns] for columns in (TXT, GLUE)
)
WINDOWS = b"\r\n".join(_tabbed(GLUE, GLUE_ROW))


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("train.jsonl", [json.dumps(OFFICIAL).encode()]),
        ("train.txt", _tabbed(TXT, TXT_ROW)),
        ("train.tsv", _tabbed(GLUE, GLUE_ROW)),
        # A byte order mark.
        ("train.tsv", [b"\xef\xbb\xbf" + WINDOWS + b"\r"]),
    ],
)
def test_each_official_form_gives_the_same_pair(tmp_path, name, lines):
    pairs, report = _read(tmp_path / name, lines)
    assert pairs == [PAIR]
    assert report["read"] == 1


@pytest.mark.parametrize("label", [-1, None, 3, True, 1.0, "1"])
def test_a_row_without_a_certain_label_is_dropped(label):
    row = {"premise": "p", "hypothesis": "h", "label": label}
    reason = "no gold label" if label in (-1, None) else "unknown label"
    assert MultiNLI().example_of(row) == Malformed(reason)


def test_an_official_txt_may_leave_off_annotators_but_no_other_column(tmp_path):
    shifted = TXT_ROW[:3] + TXT_ROW[4:]
    lines = _tabbed(TXT, TXT_ROW[:11], shifted, [*TXT_ROW, "x"], TXT_ROW[:10])
    pairs, report = _read(tmp_path / "train.txt", lines)
    assert [pair.label for pair in pairs] == [2]
    assert report["dropped"] == {
        "train.txt: duplicate id": 1,
        "train.txt: wrong number of columns": 2,
    }
    assert report["places"]["train.txt: wrong number of columns"] == ["3", "4"]


def test_a_table_without_the_columns_of_a_pair_is_refused(tmp_path):
    with pytest.raises(Exception, match="expected the column names sentence1"):
        _read(tmp_path / "train.tsv", [b"a\tb", b"1\t2"])


def _row(**changes):
    return json.dumps({**OFFICIAL, **changes}).encode()


DROPPED = [
    ("no gold label", _row(gold_label="-")),
    ("not JSON", _row()[:40]),
    ("not JSON", b"[" * 100_000),
    ("empty text", _row(sentence1=" \u3000")),
    ("a text is missing", _row(sentence1=5)),
    ("duplicate id", _row()),
    ("not a row of named fields", b"[1, 2]"),
    ("too long", _row(sentence1="x" * 10**7)),
]
MENDED = [
    _row(pairID="1").replace(b"none", b"n\xffne"),
    _row(pairID="2", sentence1="a \ud800 b"),
    _row(pairID="3", sentence2="a \0 b"),
]


def test_a_broken_row_is_dropped_and_counted_and_an_odd_letter_is_mended(tmp_path):
    lines = [_row(), *MENDED, *(line for _, line in DROPPED)]
    pairs, report = _read(tmp_path / "train.jsonl", lines)
    assert [pair.label for pair in pairs] == [PAIR.label] * (1 + len(MENDED))
    texts = "".join(text for pair in pairs for text in pair.texts())
    assert not {"\ud800", "\0"} & {*texts}
    assert report["mended"] == {"train.jsonl: characters replaced": len(MENDED)}
    reasons = (f"train.jsonl: {reason}" for reason, _ in DROPPED)
    assert report["dropped"] == Counter(reasons)
    assert report["read"] == len(lines)
    few, odd = notes(report)
    assert "are kept" in few
    assert "invalid UTF-8" in odd


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 80))
def test_a_pair_is_cut_as_run_classifier_cuts_it(first, second, room):
    a, b = list(range(first)), list(range(100, 100 + second))
    while first + second > room:
        if first > second:
            first -= 1
        else:
            second -= 1
    assert shortened(a, b, room) == (a[:first], b[:second])


def test_a_split_is_evaluated_whole_and_words_alone_tell_little(shared):
    task = opened(shared, MNLI)
    labels = [batch["labels"] for batch in task.data.batches("test")]
    assert sum(map(len, labels)) == len(task.data.splits["test"]) == 127
    metrics = evaluated(task)
    assert metrics["test/majority_accuracy"] == pytest.approx(1 / 3, abs=0.01)
    assert metrics["test/bag_of_words_accuracy"] < 0.45
    validation = evaluated(task, "validation")
    assert set(validation) == {"validation/accuracy", "validation/loss"}


def test_the_names_of_classes_of_the_hub_are_facts_of_the_data_and_of_its_export(
    hub, tmp_path
):
    names = ["contradiction", "entailment", "neutral"]
    texts = [f"text {number}" for number in range(60)]
    columns = {"premise": texts, "hypothesis": texts, "label": [0, 1, 2] * 20}
    features = {"label": SimpleNamespace(names=names)}
    hub({"train": columns, "validation_matched": columns}, [features, features])
    standard = {"model.heads": 1, "model.head_size": None}
    on_hub = {"data.source": "hub", "data.hub.path": "some/set"}
    task = opened(tmp_path, {**MNLI, **standard, **on_hub})
    labels = task.data.facts["labels"]
    assert labels == names
    found = encoder_config(task.config.model, "mnli", task.model.state_dict(), labels)
    assert found["label2id"] == {"contradiction": 0, "entailment": 1, "neutral": 2}


@pytest.mark.parametrize("task", ["mnli", "squad"])
def test_a_fine_tuning_starts_from_the_pre_trained_weights_and_its_own_output_layer(
    task,
):
    module, state = made(SMALL[task]), made(PRETRAINING).model.state_dict()
    before = copy.deepcopy(module.model.state_dict())
    module.inherit(state)
    for name, weight in module.model.state_dict().items():
        assert weight.equal(state.get(name, before[name]))
    assert before.keys() - state.keys()


@pytest.mark.parametrize(
    "changes",
    [
        {**PRETRAINING, "model.heads": 5},
        {**PRETRAINING, "model.layers": 1},
        {**PRETRAINING, "model.layers": 3},
        {**PRETRAINING, "task.vocabulary_size": 53},
        {},  # no_encoder
    ],
)
def test_the_weights_of_another_model_are_one_sentence(changes):
    task = made({**MNLI, "parent": "p", "task.tokenizer": "documents-0"})
    weights = made(changes).model.state_dict()
    told = refusal(task.inherit, weights)
    assert told.startswith("parent=p: expected a run with the same model")


def test_a_vocabulary_smaller_than_the_tokenizers_is_told_before_training(shared):
    documents = opened(shared, PRETRAINING).data.folder_name()
    small = {**MNLI, "task.tokenizer": documents, "task.vocabulary_size": 53}
    assert "the largest token id in the data" in refusal(opened, shared, small)


def test_a_parent_whose_classes_have_another_order_is_refused(shared, monkeypatch):
    task = opened(shared, MNLI)
    parent = Mock(spec=Run)
    parent.record.return_value.config = {"task": {"name": "mnli"}}
    parent.result.return_value.data = {"labels": ["neutral", "entailment"]}
    monkeypatch.setattr(RunStore, "run", lambda store, id: parent)
    task.parent = "mnli-of-other-data"
    told = "mnli-of-other-data: expected a run with the"
    assert told in refusal(task.setup, "fit")
