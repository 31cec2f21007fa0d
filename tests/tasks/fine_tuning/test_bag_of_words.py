"""The baselines see words and no order; equal data give equal numbers."""

import random

import pytest

from tasks.fine_tuning.bag_of_words import BagOfWords, guessed_answer, majority_accuracy
from tasks.synthetic import samples
from tasks.synthetic.samples import World


def test_a_majority_is_that_of_training():
    assert majority_accuracy([2, 2, 1, 0], [2, 1, 1, 1, 2]) == pytest.approx(2 / 5)
    assert majority_accuracy([1, 0], [1, 1, 0]) == pytest.approx(1 / 3)


def test_words_that_tell_a_label_are_found():
    rng = random.Random(0)
    words = ["no", "all", "maybe"]
    labels = [rng.randrange(3) for _ in range(2003)]
    noise = [" ".join(rng.choices("abcdefg", k=5)) for _ in labels]
    pairs = [
        (text, f"{words[label]} {text}")
        for label, text in zip(labels, noise, strict=True)
    ]
    model = BagOfWords(pairs, labels)
    assert model.accuracy(pairs, labels) > 0.95
    assert model.accuracy([(second, first) for first, second in pairs], labels) < 0.6
    assert BagOfWords(pairs, labels).accuracy(pairs, labels) == model.accuracy(
        pairs, labels
    )


def test_a_text_without_words_is_no_obstacle():
    pairs = [("?", ""), ("yes", "yes"), ("", "!")]
    assert 0 <= BagOfWords(pairs, [0, 1, 0]).accuracy(pairs, [0, 1, 0]) <= 1


@pytest.mark.parametrize(
    "texts", [("sentence1", "sentence2"), ("", "sentence2")], ids=str
)
def test_words_without_their_company_tell_nothing_of_a_sample_pair(texts):
    rows = [samples.pair(number, World(5, 23)) for number in range(2003)]
    labels = [samples.LABELS.index(row["gold_label"]) for row in rows]
    given = [(row.get(texts[0], ""), row[texts[1]]) for row in rows]
    model = BagOfWords(given[:1201], labels[:1201])
    assert model.accuracy(given[1201:], labels[1201:]) < 0.39


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        pytest.param(
            "Where did Ada sell gold?", "on Monday in Arden", id="longest_stretch"
        ),
        pytest.param("Who sold silver?", "Boris", id="sentence_with_most_words"),
        pytest.param("Ada sold gold on Monday in Arden", "", id="nothing_left"),
        pytest.param("Why?", "Ada sold gold on Monday in Arden", id="nothing_shared"),
    ],
)
def test_an_answer_is_guessed_from_the_sentence_with_most_of_the_question(
    question, answer
):
    context = "Ada sold gold on Monday in Arden. Boris sold silver. Cora sold nothing."
    assert guessed_answer(question, context) == answer
    assert guessed_answer(question, "...") == ""
