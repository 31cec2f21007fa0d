"""The optimizers that a config can choose."""
