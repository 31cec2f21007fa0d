"""The sections of a run's config, with the types of values and the checks between them."""
