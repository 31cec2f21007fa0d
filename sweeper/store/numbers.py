"""Format numbers, counts and durations for people."""

_UNITS = ((1e18, "E"), (1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def short(value: float, digits: int = 4) -> str:
    """Format a number with at most `digits` significant digits, such as `13.12M`, `512` or `0.25`.

    Numbers from 10,000 get a unit prefix, such as k or M.
    """
    # Round first, so that 999,999 becomes 1M and not 1000k.
    size = float(f"{abs(value):.{digits}g}")
    unit, letter = next((one for one in _UNITS if size >= max(one[0], 10_000)), (1, ""))
    rounded = float(f"{value / unit:.{digits}g}")
    # With 2 digits, the format "g" would print 280 as 2.8e+02.
    return f"{rounded:.{max(digits, 4)}g}{letter}"


def plural(count: int, noun: str) -> str:
    """Return a count with its noun: `1 run`, `2 runs`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def clock(seconds: float) -> str:
    """Format a duration, such as `4.2 s`, `3:05`, `2:03:05`, `2.5 days` or `3.1 years`."""
    for unit, size in (("years", 365 * 86400), ("days", 86400)):
        if seconds >= 2 * size:
            return f"{seconds / size:.1f} {unit}"
    if round(seconds, 1) < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
