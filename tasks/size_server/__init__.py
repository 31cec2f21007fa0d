"""The size server: a process that builds models to measure them, and forks jobs."""
