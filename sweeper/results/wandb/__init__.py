"""What the sweeper shows in Weights & Biases; nothing is ever taken from there.

service    the one door to it: keys, projects, and its errors as sentences
workspace  the saved view, as code
publish    the table, the figures and the verdicts of an experiment, as a run of their own
"""
