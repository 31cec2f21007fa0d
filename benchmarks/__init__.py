"""Benchmarks: the speed compared with peers (`make bench`), and the error rate of the verdicts."""

import os

# Use one thread, as jobs do. Several threads in each of several processes slow each other down.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
