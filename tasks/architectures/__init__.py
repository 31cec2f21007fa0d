"""The architectures that tasks train: one section of the config each, found by its name."""
