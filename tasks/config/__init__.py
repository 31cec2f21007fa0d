"""The schema of a run's config: its sections, the types of their values, and their checks."""
