"""Decide between twins with real training: `python -m benchmarks.twins`.

Both arms of an experiment are the same tiny model, each with seeds of its own, so a difference
between them is a wrong answer; a share of `--error` of the experiments may have one. With
`--planted` one arm learns ten times too slowly, and with `--handicap` its learning rate is eight
times too high: these differences shall be found, unless `--tuned` first chooses the rate of each
arm. An experiment trains up to 30 models an arm and shares no judged run with another. Results are
in docs/decisions.md and docs/tuning.md.
"""

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
"""Learning rates of the two arms; of 0.01 to 2.56 the best is 0.16."""


def command(outputs: Path, conf: Path, places: Sequence[int], **options: Any) -> list[str]:
    """Return the command that runs these experiments; see `arguments`."""
    typed = arguments(conf, places, **options)
    return [sys.executable, "sweep.py", *typed, f"paths.outputs={outputs}"]


def arguments(
    conf: Path,
    places: Sequence[int],
    *,
    rates: tuple[float, float] = ALIKE,
    tuned: bool = False,
    error: float = 0.05,
) -> list[str]:
    """Write these experiments into the folder `conf`; return the arguments of their sweep."""
    folder = conf / "experiment"
    folder.mkdir(parents=True, exist_ok=True)
    for place in places:
        starts = (APART * 2 * place, APART * (2 * place + 1))
        first, second = ([start, start + 1, start + 2] for start in starts)
        text = EXPERIMENT.format(first=first, second=second, rates=rates, error=error)
        (folder / f"twins_{place:02d}.yaml").write_text(text + TUNE * tuned)
    experiments = ",".join(f"twins_{place:02d}" for place in places)
    options = (*TINY, f"experiment={experiments}", "hydra.sweeper.decide=true")
    return ["--config-dir", str(conf), "-m", *options]


def answers(outputs: Path) -> Counter[str]:
    """Count the answers to the first claim of each experiment."""
    found: Counter[str] = Counter()
    for path in (outputs / "tables").glob("*.claims.json"):
        found.update(one["verdict"] for one in json.loads(path.read_text())["verdicts"][:1])
    return found


def main() -> int:
    """Print the answers; return 1 if one is wrong or a planted difference was not found."""
    parser = argparse.ArgumentParser(description=__doc__)
    different = parser.add_mutually_exclusive_group()
    different.add_argument("--planted", dest="rates", action="store_const", const=PLANTED)
    different.add_argument("--handicap", dest="rates", action="store_const", const=HANDICAP)
    parser.add_argument("--tuned", action="store_true")
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="number of the first repetition")
    parser.add_argument("--error", type=float, default=0.05, help="experiment.error")
    parser.add_argument("--smoke", action="store_true", help="only two repetitions")
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
