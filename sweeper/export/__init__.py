"""Export of experiments as one file, and the import of what comes back.

bundle.py    results of experiments, for somebody else to judge
pack.py      planned runs for a machine without network; merges their results
entry.py     run.py of a pack: verifies the pack, then calls runner.py, which trains
"""
