"""`python -m tests.card LIBRARY probes|steps REQUEST REPORT`: what tests ask, on the card.

In a process of its own, which has the hooks of a CUDA device before it has torch.
"""

import ctypes
import json
import sys
from pathlib import Path


def main(library, what, request, report):
    shim = ctypes.CDLL(
        library, mode=ctypes.RTLD_GLOBAL
    )  # before torch, which looks once

    from tests.card import runtime, steps

    runtime.install()
    if what == "probes":
        found = steps.probed()
    else:
        asked = json.loads(Path(request).read_text())
        found = {name: steps.measured(shim, *job) for name, job in asked.items()}
    Path(report).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
