"""Decides what to run and remembers what happened: plans, runs and results on one store."""
