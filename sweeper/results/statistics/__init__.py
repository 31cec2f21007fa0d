"""Statistics on plain numbers: estimates, intervals, bimodality."""
