"""The attention variants. Each public module defines one variant, which has the module's name."""
