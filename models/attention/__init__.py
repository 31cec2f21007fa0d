"""The attention variants: every module of this package defines one, found by its file name."""
