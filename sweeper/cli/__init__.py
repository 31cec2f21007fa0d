"""The commands of `python -m sweeper`. Training sweeps start with sweep.py instead."""
