"""Parts that all figures share."""
