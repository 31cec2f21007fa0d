"""What the project costs, beside what a person would use instead: `make bench`.

Each module measures one thing, prints a line of JSON for each result and adds it to a file;
`python -m benchmarks.document` makes docs/performance.md of the newest lines.
"""

import os

# As in every job: threads of one process do not scale, and slow others down.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
