"""The stages of a sweep: overview, tuning, training, rounds, output. sweep.py calls them."""
