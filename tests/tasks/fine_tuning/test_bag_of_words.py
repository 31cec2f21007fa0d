"""Tests that the baselines ignore the order of words, and that equal data give equal numbers."""

import random

import pytest

from tasks.fine_tuning.bag_of_words import BagOfWords, guessed_answer


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
    ("question", "answer"),
    [
        ("Where did Ada sell gold?", "on Monday in Arden"),  # longest stretch
        ("Who sold silver?", "Boris"),  # sentence with most words
        ("Ada sold gold on Monday in Arden", ""),  # nothing left
        ("Why?", "Ada sold gold on Monday in Arden"),  # nothing shared
    ],
)
def test_an_answer_is_guessed_from_the_sentence_with_most_of_the_question(
    question, answer
):
    context = "Ada sold gold on Monday in Arden. Boris sold silver. Cora sold nothing."
    assert guessed_answer(question, context) == answer
    assert guessed_answer(question, "...") == ""
