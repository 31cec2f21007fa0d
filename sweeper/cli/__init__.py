"""The commands of `python -m sweeper`."""
