"""Generated text, about the facts of a small world."""
