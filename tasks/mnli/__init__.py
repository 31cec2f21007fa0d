"""MultiNLI: the classification of the relation between two sentences."""
