"""The learning rate of a step, from the config alone: nothing to save, nothing to restore."""

from __future__ import annotations

import math

from tasks.config.sections import OptimizerSection


def learning_rate(optimizer: OptimizerSection, steps: int, step: int) -> float:
    """Return the rate of `step`, counted from 1, in a training of `steps`.

    rsqrt is tensor2tensor's constant * linear_warmup * rsqrt_decay, as the paper's LM1B runs have
    it; linear is BERT's, and would reach 0 one step after the last; constant stays where the
    warm-up ends.
    """
    peak, warmup = optimizer.learning_rate, optimizer.warmup_steps
    rise = min(1.0, step / warmup) if warmup else 1.0
    if optimizer.schedule == "rsqrt":
        return peak * rise / math.sqrt(max(step, warmup))
    if optimizer.schedule == "linear" and step > warmup:
        return peak * (steps + 1 - step) / (steps + 1 - warmup)
    return peak * rise
