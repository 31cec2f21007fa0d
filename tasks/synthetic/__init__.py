"""Generated text about a small world of families."""
