"""The attention variants. Each public module defines the variant of the same name."""
