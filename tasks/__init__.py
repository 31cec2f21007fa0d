"""Joins a run's config, its data, its model and Lightning: the training jobs."""
