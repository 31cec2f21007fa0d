"""What the sweeper has to do with Weights & Biases: to show results there, to take runs from there.

service    the one door to it: keys, projects, and its errors as sentences
workspace  the saved view, as code
publish    the table, the figures and the plan of an experiment, as a run of their own
fetch      runs that were trained elsewhere, back as records
"""
