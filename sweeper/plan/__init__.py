"""The plan of a command line: its experiments, configurations, points and runs."""
