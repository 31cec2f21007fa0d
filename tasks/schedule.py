"""Learning-rate schedules."""

import math

from tasks.config.sections import OptimizerSection


def learning_rate(optimizer: OptimizerSection, steps: int, step: int) -> float:
    """Return the learning rate of `step`, counted from 1, in a training of `steps`.

    - rsqrt: tensor2tensor's constant * linear_warmup * rsqrt_decay.
    - linear, cosine: fall after the warm-up and would reach 0 one step after the last.
    - bert: that of google-research/bert. It falls linearly from the first step, but the warm-up
      replaces its beginning. The first rate is 0.
    - constant: stays at its peak after the warm-up.
    """
    peak, warmup = optimizer.learning_rate, optimizer.warmup_steps
    if optimizer.schedule == "bert":
        before = step - 1
        return peak * (before / warmup if before < warmup else 1 - before / steps)
    rise = min(1.0, step / warmup) if warmup else 1.0
    if optimizer.schedule == "rsqrt":
        return peak * rise / math.sqrt(max(step, warmup))
    if optimizer.schedule == "linear" and step > warmup:
        return peak * (steps + 1 - step) / (steps + 1 - warmup)
    if optimizer.schedule == "cosine" and step > warmup:
        progress = (step - warmup) / (steps + 1 - warmup)
        return peak * (1 + math.cos(math.pi * progress)) / 2
    return peak * rise
