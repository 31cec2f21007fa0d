"""The commands `forget` and `status` of `python -m sweeper`, and the set-up of a process."""
