"""Generated text about families, which needs heads of a known size."""
