"""Rounds with real training on twins, two arms that are one model, each with seeds of its own.

A difference between them is wrong, and a share of `--error` may be. With `--planted` one
learns ten times too slowly, which is to be found; with `--handicap` one has a learning rate eight
times too high, which is to be found too, unless `--tuned` chooses each arm's own before. Every
repetition is an experiment that shares no judged run with another: `--smoke` does two. It trains up
to 30 tiny models an arm; what came out stands in docs/decisions.md and docs/tuning.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.measure import call

APART = 1000  # between the first seeds of any two arms
TINY = (
    *("data.sentences=600", "task.vocabulary_size=400", "task.sequence_length=32"),
    *("task.batch_tokens=512", "model.layers=1", "model.embedding_size=8", "model.head_size=4"),
    *("model.feedforward_size=16", "optimizer.warmup_steps=5", "trainer.steps=20", "logger=none"),
)
EXPERIMENT = """\
# @package _global_
defaults: [override /task: lm1b]
experiment:
  title: Twins
  metric: test/perplexity
  claims: [wins_at_equal_size]
  error: {error}
  margin: {{test/perplexity: {{size: 15 %, reason: "seeds of it differ by 8 %."}}}}
  arms:
    standard:
      seeds: {first}
      set: {{optimizer.learning_rate: {rates[0]}}}
      grid: {{model.heads: [2]}}
    twin:
      seeds: {second}
      set: {{optimizer.learning_rate: {rates[1]}}}
      match: {{to: standard, solve: model.heads, tolerance: 0.0}}
"""
TUNE = """\
  tune: {grid: {optimizer.learning_rate: [0.04, 0.16, 0.64]}, seeds: [7, 8, 9]}
"""
ALIKE, PLANTED, HANDICAP = (0.01, 0.01), (0.01, 0.001), (0.16, 1.28)
"""Learning rates of the two arms; among those that were tried (0.01 to 2.56) 0.16 is the best."""


def command(outputs: Path, conf: Path, places: Sequence[int], **options: Any) -> list[str]:
    """The command that trains rounds of these experiments; see `arguments`."""
    asked = arguments(conf, places, **options)
    return [sys.executable, "sweep.py", *asked, f"paths.outputs={outputs}"]


def arguments(
    conf: Path,
    places: Sequence[int],
    *,
    rates: tuple[float, float] = ALIKE,
    tuned: bool = False,
    error: float = 0.05,
) -> list[str]:
    """What is typed to train rounds of these experiments, which are written to `conf`."""
    folder = conf / "experiment"
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"twins_{place:02d}" for place in places]
    for place, name in zip(places, names, strict=True):
        first, second = (
            [APART * (2 * place + arm) + seed for seed in range(3)] for arm in range(2)
        )
        text = EXPERIMENT.format(first=first, second=second, rates=rates, error=error)
        (folder / f"{name}.yaml").write_text(text + TUNE * tuned)
    experiments = f"experiment={','.join(names)}"
    return ["--config-dir", str(conf), "-m", *TINY, experiments, "hydra.sweeper.decide=true"]


def answers(outputs: Path) -> Counter[str]:
    files = (outputs / "tables").glob("*.claims.json")
    given = (json.loads(path.read_text())["verdicts"][:1] for path in files)
    return Counter(verdict["verdict"] for verdicts in given for verdict in verdicts)


def main() -> int:
    """Print the answers; 1 if one of them is wrong, or a planted difference was not found."""
    parser = argparse.ArgumentParser(description=__doc__)
    different = parser.add_mutually_exclusive_group()
    different.add_argument("--planted", dest="rates", action="store_const", const=PLANTED)
    different.add_argument("--handicap", dest="rates", action="store_const", const=HANDICAP)
    parser.add_argument("--tuned", action="store_true")
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="the place of the first repetition")
    parser.add_argument("--error", type=float, default=0.05, help="experiment.error")
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    repetitions = 2 if given.smoke else given.repetitions
    places = range(given.first, given.first + repetitions)
    with TemporaryDirectory() as folder:
        root = Path(folder)
        options = {"rates": given.rates or ALIKE, "tuned": given.tuned, "error": given.error}
        _, *typed = command(root / "outputs", root / "conf", places, **options)
        call(*typed)
        found = answers(root / "outputs")
    print(", ".join(f"{count} {answer}" for answer, count in sorted(found.items())))
    differing = found["supported"] + found["not supported"]
    return int(differing != (repetitions if given.rates and not given.tuned else 0))


if __name__ == "__main__":
    sys.exit(main())
