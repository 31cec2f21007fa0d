"""Measurements of the project: speed beside peers (`make bench`), and how often its answers err."""

import os

# Jobs use one thread each too: several threads in several processes slow one another down.
for _name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
