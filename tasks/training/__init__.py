"""Code that trains one run: the loop, checkpoints, metrics, signals and ranks."""
