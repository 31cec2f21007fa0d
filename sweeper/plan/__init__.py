"""Turn a command line into a plan: its experiments, configurations, points and runs."""
