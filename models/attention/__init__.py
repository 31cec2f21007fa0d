"""The attention variants. Each public module of this package defines one and gives it its name."""
