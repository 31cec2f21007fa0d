"""The execution of runs: the schedule, its backends, the watchdog and the progress display."""
