"""Pure functions of numbers: estimates, intervals, fits."""
