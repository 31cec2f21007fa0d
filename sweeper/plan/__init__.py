"""The plan: what a command line will train, as experiments, configurations, points and runs."""
