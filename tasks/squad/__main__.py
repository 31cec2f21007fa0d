"""`python -m tasks.squad score PREDICTIONS DATASET`: the official SQuAD v1.1 scores of a file."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sweeper.store.errors import UserError, sanitize
from tasks.squad import scoring

VERSION = "1.1"


def main(arguments: list[str]) -> int:
    """Print the scores as the official evaluator does, in JSON; return the exit code."""
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
    """Return the scores that evaluate-v1.1.py prints for two files.

    A question without a prediction scores 0.

    Raises:
        UserError: a file is not in the format that the evaluator reads.
    """
    from tasks.fine_tuning.dataset import load_file  # --help needs no numpy

    # json.loads is as lenient as the evaluator: of a repeated key, the last value counts.
    given, gold = (load_file(path, json.loads) for path in (predictions, dataset))
    if not isinstance(given, dict):
        raise UserError(
            f"{predictions} has no predictions: expected a JSON object that gives a text for each "
            "question's id; name another file."
        )
    questions = list(_questions(gold, dataset))
    if gold.get("version") != VERSION:
        version = sanitize(gold.get("version"))
        print(
            f"Evaluation expects v-{VERSION}, but got dataset with v-{version}",
            file=sys.stderr,
        )
    for question, _ in questions:
        if not isinstance(given.get(question, ""), str):
            raise UserError(
                f"{predictions}: expected a text as the prediction for question "
                f"{sanitize(question)}; correct the file."
            )
    for question, _ in questions:
        if question not in given:
            print(
                f"Unanswered question {question} will receive score 0.", file=sys.stderr
            )
    try:
        return scoring.score(questions, given)
    except ValueError as error:
        raise UserError(
            f"{dataset} cannot be scored: {error}; name a SQuAD v1.1 file."
        ) from error


def _questions(gold: Any, path: Path) -> Iterator[tuple[str, list[str]]]:
    try:
        for article in gold["data"]:
            for paragraph in article["paragraphs"]:
                for question in paragraph["qas"]:
                    answers = [answer["text"] for answer in question["answers"]]
                    if not all(
                        isinstance(text, str) for text in (question["id"], *answers)
                    ):
                        raise TypeError("an id or an answer is not a text")
                    yield question["id"], answers
    except (KeyError, TypeError) as error:
        why = f"no {error}" if isinstance(error, KeyError) else str(error)
        raise UserError(
            f"{path} is not a SQuAD v1.1 file ({why}); name another file."
        ) from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
