"""Takes planned runs to a machine that has GPUs and no network, and brings their results home.

here   pack.py     frozen records, prepared data and the code that trains, in one tar
there  entry.py    (run.py in the pack) looks whether all of it is whole, then calls
       runner.py   which trains, parents first, and leaves one tar with what came of it
here   merge.py    puts that where it would lie had it been trained here

and what came of experiments to whoever doubts it: bundle.py writes, rejudge.py judges again.
"""
