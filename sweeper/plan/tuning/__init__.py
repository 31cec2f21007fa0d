"""Tuning before judging: how values are chosen for an experiment, and the trials it takes."""
