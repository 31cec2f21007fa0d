"""Learning-rate schedules."""

import math

from tasks.config.sections import OptimizerSection


def learning_rate(optimizer: OptimizerSection, steps: int, step: int) -> float:
    """Return the learning rate of a step, counted from 1, in a run of `steps` steps.

    Except for `bert`, the rate rises linearly to its peak during the warm-up. After the warm-up:

    - rsqrt: decays with the inverse square root of the step, as tensor2tensor's
      constant * linear_warmup * rsqrt_decay.
    - linear, cosine: falls along a line or a cosine that reaches 0 one step after the last.
    - constant: stays at its peak.

    bert is the schedule of google-research/bert. During the warm-up, the rate rises linearly from 0
    at the first step. After the warm-up, it follows a line that would be at the peak at the first
    step, and reaches 0 one step after the last. So the rate jumps where the warm-up ends.
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
