"""Scores for SQuAD v1.1, equal in every digit to those of the official evaluate-v1.1.py."""

import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalized(answer: str) -> str:
    """Return an answer in lower case, without ASCII punctuation, articles and extra spaces."""
    without_articles = re.sub(
        r"\b(a|an|the)\b", " ", answer.lower().translate(PUNCTUATION)
    )
    return " ".join(without_articles.split())


def exact_match(prediction: str, answer: str) -> float:
    """Return 1 if the normalised texts are equal, else 0."""
    return float(normalized(prediction) == normalized(answer))


def f1(prediction: str, answer: str) -> float:
    """Return the F1 score of the prediction's words, after normalisation of both texts.

    It is 0 if the texts share no word.
    """
    words, expected = normalized(prediction).split(), normalized(answer).split()
    shared = (Counter(words) & Counter(expected)).total()
    if not shared:
        return 0.0
    precision, recall = shared / len(words), shared / len(expected)
    return 2 * precision * recall / (precision + recall)


def score(
    questions: Iterable[tuple[str, Sequence[str]]], predictions: Mapping[str, str]
) -> dict[str, float]:
    """Return the means over all questions of exact_match and f1, in percent.

    For each question, take the highest score over its gold answers.

    Args:
        questions: pairs (id, gold answers). There must be at least one question, and at least one
            gold answer to each.
        predictions: the predicted answers by question id.
    """
    total, matches, overlap = 0, 0.0, 0.0
    for question, answers in questions:
        prediction = predictions[question]
        total += 1
        matches += max(exact_match(prediction, answer) for answer in answers)
        overlap += max(f1(prediction, answer) for answer in answers)
    return {"exact_match": 100.0 * matches / total, "f1": 100.0 * overlap / total}
