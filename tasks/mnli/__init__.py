"""MultiNLI: the relation between two sentences, one of three."""
