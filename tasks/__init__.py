"""The tasks, and the jobs that prepare their data and train models on them."""
