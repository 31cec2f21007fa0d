"""An experiment of twins: both arms are the same tiny model, with different learning rates."""

from pathlib import Path

TINY = (
    *("data.sentences=600", "task.vocabulary_size=400", "task.sequence_length=32"),
    *(
        "task.batch_tokens=512",
        "model.layers=1",
        "model.embedding_size=8",
        "model.head_size=4",
    ),
    *(
        "model.feedforward_size=16",
        "optimizer.warmup_steps=5",
        "trainer.steps=20",
        "logger=none",
    ),
)
EXPERIMENT = """\
# @package _global_
defaults: [override /task: lm1b]
experiment:
  title: Twins
  metric: test/perplexity
  claims: [wins_at_equal_size]
  seeds: [0, 1, 2]
  margin: {{test/perplexity: {{size: 15 %, reason: "seeds of it differ by 8 %."}}}}
  arms:
    standard:
      set: {{optimizer.learning_rate: {rates[0]}}}
      grid: {{model.heads: [2]}}
    twin:
      set: {{optimizer.learning_rate: {rates[1]}}}
      match: {{to: standard, solve: model.heads, tolerance: 0.0}}
"""
ALIKE, PLANTED = (1.28, 1.29), (0.32, 1.28)
"""Learning rates of the two arms.

At rates this high, a small difference in the rate changes the result as much as another seed does.
"""


def arguments(conf: Path, rates: tuple[float, float]) -> list[str]:
    """Write the experiment into the folder `conf`; return the arguments of its sweep."""
    folder = conf / "experiment"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "twins.yaml").write_text(EXPERIMENT.format(rates=rates))
    decides = ("experiment=twins", "name=twins", "hydra.sweeper.decide=true")
    return ["--config-dir", str(conf), "-m", *TINY, *decides]
