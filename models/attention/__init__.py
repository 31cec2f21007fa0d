"""The attention variants. Each public module of this package defines one, named after its file."""
