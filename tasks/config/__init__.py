"""The schema of a run's config: its sections, and the types and problems of their values."""
