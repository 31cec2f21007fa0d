"""Questions are read from both forms SQuAD is published in; a wrong place never becomes a label."""

import copy
import json
import random

import pytest

from sweeper.store.errors import UserError
from tasks.fine_tuning.dataset import Malformed, RowReport
from tasks.squad.task import Question, SQuAD, question_of
from tasks.synthetic import samples
from tasks.synthetic.samples import World

WORLD = World(competitors=5, directions=23)
NOWHERE = "no answer stands in the context"
CONTEXT = "The caf\u00e9 sold gold. Gold, not old gold paint, was cheap."


def _question(*answers, context=CONTEXT, **changes):
    return question_of(
        {"id": "q", "question": "What?", "answers": list(answers), **changes}, context
    )


def _answer(text, start):
    return {"text": text, "answer_start": start}


@pytest.mark.parametrize(
    ("answers", "start", "text"),
    [
        pytest.param([_answer("gold", 14)], 14, "gold", id="where_it_should"),
        pytest.param([_answer("gold ", 34)], 34, "gold", id="white_space_left_off"),
        pytest.param([_answer("cheap", 3)], 50, "cheap", id="found_in_the_only_place"),
        pytest.param([_answer("cheap", None)], 50, "cheap", id="no_place_given"),
        pytest.param([_answer("cheap", -3)], 50, "cheap", id="negative"),
        pytest.param([_answer("cheap", 10**9)], 50, "cheap", id="beyond"),
        pytest.param([_answer("cheap", True)], 50, "cheap", id="true_is_no_place"),
        pytest.param([_answer("gold", 13)], -1, "", id="in_several_places"),
        pytest.param([_answer("sol", 0)], -1, "", id="part_of_a_word"),
        pytest.param([_answer("silver", 14)], -1, "", id="nowhere"),
        pytest.param([_answer("", 5), _answer(" ", 8)], -1, "", id="empty"),
        pytest.param([_answer("silver", 1), _answer("gold", 14)], 14, "gold", id="the_second"),
        pytest.param([_answer("cheap", 1), _answer("gold", 14)], 14, "gold", id="standing_first"),
    ],
)
def test_an_answer_is_where_it_stands_or_in_the_one_place_it_can_be(answers, start, text):
    question = _question(*answers)
    assert isinstance(question, Question)
    assert (question.start, question.text) == (start, text)
    assert CONTEXT[start : start + len(text)] == text
    assert question.answers == tuple(answer["text"] for answer in answers)
    trainable = SQuAD().trainable(question)
    assert trainable == (question if start >= 0 else Malformed(NOWHERE))


def test_replaced_characters_move_no_answer():
    context = "a \ud800 b \0 gold"
    question = _question(_answer("gold", 8), context=context)
    assert isinstance(question, Question)
    assert question.context == "a \ufffd b \ufffd gold"
    assert question.start == 8
    assert question.mended == ("characters replaced",)


def test_the_hubs_rows_are_the_files_questions():
    row = {
        "id": "q",
        "question": "What?",
        "context": CONTEXT,
        "answers": {"text": ["silver", "gold"], "answer_start": [1, 14]},
    }
    assert SQuAD().example_of(row) == _question(_answer("silver", 1), _answer("gold", 14))
    for answers in (None, {"text": ["gold"], "answer_start": []}, {"text": "gold"}):
        assert SQuAD().example_of({**row, "answers": answers}) == Malformed("no answer")


def _change(**changes):
    return lambda entry, rng: entry["qas"][0].update(changes)


def _place(entry, change):
    answer = entry["qas"][0]["answers"][0]
    answer["answer_start"] = change(answer["answer_start"])


def _truncate(entry, rng):
    answer = entry["qas"][0]["answers"][0]
    entry["context"] = entry["context"][: answer["answer_start"] + len(answer["text"]) - 1]


def _double(entry, rng):
    entry["context"] *= 2
    _place(entry, lambda at: at + 1)


# What is done to a question, and what becomes of it: the reason it is dropped for, or None.
MUTATIONS = {
    "untouched": (lambda entry, rng: None, None),
    "place_off": (lambda e, rng: _place(e, lambda at: at + rng.choice((-3, -1, 1, 2))), None),
    "place_negative": (lambda e, rng: _place(e, lambda at: -at - 1), None),
    "place_beyond": (lambda e, rng: _place(e, lambda at: at + 10**6), None),
    "place_is_text": (lambda e, rng: _place(e, str), None),
    "answer_absent": (_change(answers=[_answer("moonlight", 3)]), NOWHERE),
    "answer_ambiguous": (_double, NOWHERE),
    "answer_empty": (_change(answers=[_answer("", 0)]), NOWHERE),
    "answer_cut_by_truncation": (_truncate, NOWHERE),
    "answers_none": (_change(answers=[]), "no answer"),
    "answers_null": (_change(answers=None), "no answer"),
    "answer_is_a_number": (_change(answers=[3]), "no answer"),
    "answer_text_null": (_change(answers=[{"text": None, "answer_start": 0}]), "no answer"),
    "question_null": (_change(question=None), "a text is missing"),
    "question_empty": (_change(question="\t"), "empty text"),
    "question_is_a_list": (_change(question=["What?"]), "a text is missing"),
    "context_empty": (lambda entry, rng: entry.update(context=""), "empty text"),
    "context_absent": (lambda entry, rng: entry.pop("context"), "a text is missing"),
    "context_of_ten_megabytes": (
        lambda entry, rng: entry.update(context=entry["context"] + "x" * 10**7),
        "too long",
    ),
    "id_absent": (lambda entry, rng: entry["qas"][0].pop("id"), "no id"),
    "id_is_a_number": (_change(id=5), "no id"),
    "id_empty": (_change(id=""), "no id"),
    "id_twice": (_change(id="0-0"), "duplicate id"),
    "questions_absent": (lambda entry, rng: entry.pop("qas"), "a paragraph without questions"),
    "question_is_a_number": (lambda entry, rng: entry.update(qas=[7]), "not a question"),
    "lone_surrogate": (lambda e, rng: e.update(context=e["context"] + " \ud800"), None),
    "nul": (lambda e, rng: e.update(context=e["context"] + " \0"), None),
}


def test_of_mutated_questions_each_keeps_its_answer_or_is_dropped_and_counted(tmp_path):
    rng = random.Random(0)
    entries, texts, expected = [], [], dict[str, int]()
    for number, (mutate, reason) in enumerate(3 * list(MUTATIONS.values())):
        entry = copy.deepcopy(samples.paragraph(number, WORLD))
        entry["qas"] = entry["qas"][:1]
        text = entry["qas"][0]["answers"][0]["text"]
        mutate(entry, rng)
        entries.append(entry)
        if reason is None:
            texts.append(text)
        else:
            key = f"train.json: {reason}"
            expected[key] = expected.get(key, 0) + 1
    path = tmp_path / "train.json"
    path.write_text(json.dumps({"version": "1.1", "data": [{"paragraphs": entries}, 5]}))
    report, data = RowReport(), SQuAD()
    rows = (
        (at, r if isinstance(r, Malformed) else data.trainable(r)) for at, r in data.read_file(path)
    )
    kept = list(report.kept_of(path.name, rows))
    assert report.dropped == {**expected, "train.json: an article without paragraphs": 1}
    assert [question.context[q.start :][: len(q.text)] for q in kept for question in [q]] == texts
    assert report.kept + sum(report.dropped.values()) == report.total == 3 * len(MUTATIONS) + 1
    assert report.about()["places"]["train.json: no id"][0] == "data[0].paragraphs[19].qas[0]"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        pytest.param(b'{"version": "1.1", "data": [{"para', "is not JSON", id="truncated"),
        pytest.param(b"", "is not JSON", id="empty"),
        pytest.param(b"[" * 100_000, "nested too deeply", id="nested_without_end"),
        pytest.param(b'{"data": NaN}', "NaN is no JSON number", id="nan"),
        pytest.param(b'{"data": [], "data": []}', "a key comes twice", id="key_twice"),
        pytest.param(b'{"data": {}}', 'no list under "data"', id="data_is_no_list"),
        pytest.param(b"[]", 'no list under "data"', id="no_object"),
        pytest.param('{"data": []}'.encode("utf-16"), "is UTF-16", id="utf_16"),
    ],
)
def test_a_file_that_is_no_data_set_is_one_sentence(tmp_path, content, said):
    path = tmp_path / "train.json"
    path.write_bytes(content)
    with pytest.raises(UserError, match=said) as caught:
        list(SQuAD().read_file(path))
    assert "\n" not in str(caught.value)


def test_invalid_utf8_keeps_the_question_and_its_answer(tmp_path):
    text = json.dumps({"data": [{"paragraphs": [samples.paragraph(0, WORLD)]}]})
    path = tmp_path / "train.json"
    path.write_bytes(b"\xef\xbb\xbf" + text.encode().replace(b'."', b'.\xff\xfe"'))
    rows = [row for _, row in SQuAD().read_file(path)]
    assert len(rows) == samples.QUESTIONS_EACH
    for row in rows:
        assert isinstance(row, Question)
        assert row.mended == ("characters replaced",)
        assert row.context[row.start :].startswith(row.text)
        assert row.text in row.answers


def test_every_answer_of_the_shared_questions_stands(shared_data):
    for name, count in (("train-v1.1.sample.json", 3547), ("xquad.en.json", 1190)):
        report = RowReport()
        found = list(report.kept_of(name, SQuAD().read_file(shared_data / "squad" / name)))
        assert len(found) == report.total == count
        assert all(question.start >= 0 for question in found)
