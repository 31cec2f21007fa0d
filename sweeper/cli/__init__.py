"""The command line beside sweep.py: `python -m sweeper`, a file for each command or few."""
