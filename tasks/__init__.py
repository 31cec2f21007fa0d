"""The tasks, such as `lm1b`, and the jobs that prepare their data and train models."""
