"""The attention variants. Each public module defines one, which has the name of the module."""
