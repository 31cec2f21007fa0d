"""The optimizers that a config can name."""
