"""Fault injection for sweeps: `python -m tests.faults` (see docs/faults.md).

Each case disturbs a small sweep in one way, lets it finish, and compares it byte for byte with an
undisturbed one. It prints a line of JSON with its seed and its counters.
"""
