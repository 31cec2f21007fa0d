"""The attention variants. Each public module defines one class. The module's name names it."""
