"""`python -m tasks.squad score PREDICTIONS DATASET`: anyone's predictions, scored officially."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sweeper.store.errors import UserError, sanitize
from tasks.fine_tuning.dataset import load_file
from tasks.squad import scoring

VERSION = "1.1"


def main(arguments: list[str]) -> int:
    """Print the official evaluator's JSON for `score PREDICTIONS DATASET`; 1 if that cannot be."""
    if len(arguments) != 3 or arguments[0] != "score":
        asked = arguments[-1:] in (["-h"], ["--help"])
        usage = "usage: python -m tasks.squad score PREDICTIONS DATASET"
        print(usage, file=sys.stdout if asked else sys.stderr)
        return 0 if asked else 2
    try:
        print(json.dumps(score_files(Path(arguments[1]), Path(arguments[2]))))
    except UserError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def score_files(predictions: Path, dataset: Path) -> dict[str, float]:
    """Return what evaluate-v1.1.py prints for two files; UserError for files that it cannot take.

    A question without a prediction scores 0.
    """
    # As lenient as the evaluator: a key that comes twice has its last value.
    given, gold = (load_file(path, json.loads) for path in (predictions, dataset))
    if not isinstance(given, dict):
        raise UserError(f"{predictions} is no JSON object of id and text; name another file.")
    questions = list(_questions(gold, dataset))
    if gold.get("version") != VERSION:
        version = sanitize(gold.get("version"))
        print(f"Evaluation expects v-{VERSION}, but got dataset with v-{version}", file=sys.stderr)
    for question, _ in questions:
        if not isinstance(given.get(question, ""), str):
            said = f"{predictions}: no text is predicted for {sanitize(question)}; mend it."
            raise UserError(said)
    for question, _ in questions:
        if question not in given:
            print(f"Unanswered question {question} will receive score 0.", file=sys.stderr)
    try:
        return scoring.score(questions, given)
    except ValueError as error:
        raise UserError(f"{dataset} cannot be scored: {error}; name a SQuAD v1.1 file.") from error


def _questions(gold: Any, path: Path) -> Iterator[tuple[str, list[str]]]:
    try:
        for article in gold["data"]:
            for paragraph in article["paragraphs"]:
                for question in paragraph["qas"]:
                    answers = [answer["text"] for answer in question["answers"]]
                    if not all(isinstance(text, str) for text in (question["id"], *answers)):
                        raise TypeError("an id or an answer is no text")
                    yield question["id"], answers
    except (KeyError, TypeError) as error:
        why = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise UserError(f"{path} is no SQuAD v1.1 file ({why}); name another one.") from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
