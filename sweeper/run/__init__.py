"""The package that executes runs: the schedule, its backends, the watchdog and the display."""
