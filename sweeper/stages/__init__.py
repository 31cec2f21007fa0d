"""The stages of a sweep: overview, tuning, training, rounds, publishing. sweep.py joins them."""
