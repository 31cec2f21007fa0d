"""The package that executes runs: the schedule, its backends and the watchdog."""
