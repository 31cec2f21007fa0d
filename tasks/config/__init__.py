"""The sections of a run's config: the types of their values, and the checks between keys."""
