"""Breaks sweeps on purpose and counts what was lost: `python -m tests.faults` (see docs/faults.md).

Each case disturbs a small sweep in one way, has it finish, and compares it byte for byte with one
that nobody disturbed. It prints a line of JSON with its seed and its counters (count.py).
"""
