"""The warm process: answers questions about configs, and forks jobs."""
