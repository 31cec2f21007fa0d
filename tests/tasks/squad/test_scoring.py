"""Tests that scores equal those of the official evaluator."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.squad import scoring
from tests.tasks.squad import official_evaluator

EXACT = 1e-9

# (prediction, gold answers, exact match, F1), worked out by hand from the official rules.
HARD = {
    "same": ("the Denver Broncos", ["Denver Broncos"], 1, 1.0),
    "article_within_a_word": ("theory another bank", ["ory nother bnk"], 0, 0.0),
    "article_that_is_a_grade": ("grade A", ["grade"], 1, 1.0),
    "articles_only_on_both_sides": ("The", ["the"], 1, 0.0),
    "punctuation_only_against_nothing": ("?!", [""], 1, 0.0),
    "punctuation_joins_words": ("Saint-Denis", ["Saint Denis"], 0, 0.0),
    "currency_sign_is_punctuation": ("$5", ["5"], 1, 1.0),
    "article_glued_by_an_apostrophe": ("l'a", ["la"], 1, 1.0),
    "article_after_a_typographic_quote": (
        "\u201cthe gold\u201d",
        ["\u201c gold\u201d"],
        1,
        1.0,
    ),
    "no_break_space_separates": ("New\u00a0York", ["new york"], 1, 1.0),
    "zero_width_space_does_not": ("New\u200bYork", ["new york"], 0, 0.0),
    "dotted_capital_grows": ("\u0130stanbul", ["i\u0307stanbul"], 1, 1.0),
    "accents_count": ("Beyonce", ["Beyonc\u00e9"], 0, 0.0),
    "repetition_counts_once_each": ("gold gold gold", ["gold gold"], 0, 0.8),
    "order_does_not_matter_to_f1": ("gold of", ["of gold"], 0, 1.0),
    "best_of_several": ("blue and gold", ["gold", "blue", "blue gold paint"], 0, 2 / 3),
    "f1_and_match_of_different_golds": ("a gold", ["gold paint", "GOLD."], 1, 1.0),
}


@pytest.mark.parametrize(
    ("prediction", "answers", "match", "overlap"), HARD.values(), ids=HARD.keys()
)
def test_hard_cases_score_as_worked_out_by_hand(prediction, answers, match, overlap):
    questions, predictions = [("q", answers)], {"q": prediction}
    found = scoring.score(questions, predictions)
    expected = {"exact_match": 100 * match, "f1": 100 * overlap}
    assert found == pytest.approx(expected, abs=EXACT)
    assert found == official_evaluator.evaluate(_dataset(questions), predictions)


# Words with articles, punctuation, several quotes and dashes, accents, and other scripts.
WORDS = st.sampled_from(
    [
        *"a an the The AN A. the, gold Gold gold. 'gold' red-gold theory - $5 5 5.0 _ a_b".split(),
        *"\u2013 \u201c \u201d caf\u00e9 cafe\u0301 \u4e2d\u56fd \u0130 i\u0307 \u00df ss".split(),
        "\u00a0",
        "\u200b",
        "",
    ]
)
ANSWERS = st.one_of(
    st.lists(WORDS, max_size=5).map(" ".join),
    st.lists(WORDS, max_size=4).map("".join),
    st.text(),
)
QUESTIONS = st.lists(
    st.tuples(st.sampled_from("pqrst"), st.lists(ANSWERS, min_size=1, max_size=4)),
    min_size=1,
    max_size=5,
)


@given(QUESTIONS, st.fixed_dictionaries(dict.fromkeys("pqrst", ANSWERS)))
def test_any_predictions_score_as_the_official_rules_say(questions, predictions):
    expected = official_evaluator.evaluate(_dataset(questions), predictions)
    assert scoring.score(questions, predictions) == pytest.approx(expected, abs=EXACT)


def _dataset(questions):
    qas = [
        {"id": q, "answers": [{"text": text} for text in texts]}
        for q, texts in questions
    ]
    return [{"paragraphs": [{"qas": [qa]} for qa in qas]}]
