"""Text for language models: where it comes from, cutting it into pieces, packing it into rows."""
