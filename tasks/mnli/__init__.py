"""MultiNLI: classify the relation between two sentences."""
