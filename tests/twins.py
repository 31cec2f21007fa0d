"""An experiment of twins: both arms are the same tiny model, with different learning rates."""

from pathlib import Path

TINY = """
data.sentences=600 task.vocabulary_size=400 task.sequence_length=32 task.batch_tokens=512
model.layers=1 model.embedding_size=8 model.head_size=4 model.feedforward_size=16
optimizer.warmup_steps=5 trainer.steps=20 logger=none
""".split()
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
      set: {{{standard}}}
      grid: {{model.heads: [2]}}
    twin:
      set: {{{twin}}}
      match: {{to: standard, solve: model.heads, tolerance: 0.0}}
"""
TUNE = """\
  tune: {grid: {optimizer.learning_rate: [0.04, 0.16, 0.64]}, seeds: [7, 8, 9]}
"""
ALIKE, PLANTED = (1.28, 1.29), (0.32, 1.28)
"""Learning rates of the two arms. Of 0.01 to 2.56, the best is 0.16.

At high rates, a small difference in the rate changes the result as much as another seed does.
"""
# Single precision does not see the difference, but tuned twins have different run ids.
DECAY, OTHER_DECAY = 0.1, 0.100000000000001


def arguments(conf: Path, rates: tuple[float, float] | None = None) -> list[str]:
    """Write the experiment into the folder `conf`; return the arguments of its sweep.

    `rates` are the learning rates of the two arms. If it is None, trials choose them.
    """
    folder = conf / "experiment"
    folder.mkdir(parents=True, exist_ok=True)
    if rates is None:
        standard, twin = "", f"optimizer.weight_decay: {OTHER_DECAY}"
    else:
        standard, twin = (f"optimizer.learning_rate: {rate}" for rate in rates)
        twin += f", optimizer.weight_decay: {DECAY}"
    text = EXPERIMENT.format(standard=standard, twin=twin)
    (folder / "twins.yaml").write_text(text + TUNE * (rates is None))
    decides = ("experiment=twins", "name=twins", "hydra.sweeper.decide=true")
    return ["--config-dir", str(conf), "-m", *TINY, *decides]
