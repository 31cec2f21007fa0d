"""Training of one run: the loop, its checkpoints, metrics, signals and ranks."""
