"""Text for language models: where it comes from, how it is cut into pieces, how it is packed into rows."""
