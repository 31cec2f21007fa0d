"""The size server: a process that measures the sizes of models, and forks jobs."""
