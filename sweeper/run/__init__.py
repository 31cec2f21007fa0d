"""Executes the runs of a plan: order, slots, what happens when one fails."""
