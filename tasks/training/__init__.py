"""One attempt at a run: fit, checkpoints, signals, ranks, and what it leaves."""
