"""Learning-rate schedules."""

import math

from tasks.config.sections import OptimizerSection


def learning_rate(optimizer: OptimizerSection, steps: int, step: int) -> float:
    """Return the learning rate of a step, counted from 1, in a run of `steps` steps.

    During the warm-up, the rate rises linearly. After the warm-up, it depends on the schedule:

    - rsqrt: learning_rate / sqrt(step), as tensor2tensor's constant * linear_warmup * rsqrt_decay.
    - linear, cosine: falls along a line or a cosine, from learning_rate at the end of the warm-up
      to 0 one step after the last.
    - constant: stays at learning_rate.
    - bert: learning_rate * (1 - (step - 1) / steps), as in google-research/bert. This line starts
      at the first step, so the rate jumps where the warm-up ends.

    In the first step of the warm-up, the rate is 0 for `bert`, and above 0 for other schedules.
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
