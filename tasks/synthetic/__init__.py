"""Text that the project generates itself, from facts of a small world."""
