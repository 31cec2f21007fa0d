"""The training of one run: its loop, checkpoints, metrics, signals and ranks."""
