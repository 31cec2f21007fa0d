"""Statistics on arrays of numbers: estimates, confidence intervals, bimodality."""
