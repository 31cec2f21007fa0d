"""`python -m tests.card LIBRARY jobs|probes|steps REQUEST REPORT`: what tests ask, on the card.

In a process of its own, which has the hooks of a CUDA device before it has torch.
"""

import ctypes
import json
import sys
import tempfile
from pathlib import Path


def main(library, what, request, report):
    shim = ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)  # before torch, which looks once

    from tests.card import jobs, runtime, steps

    runtime.install()
    if what == "jobs":
        with tempfile.TemporaryDirectory() as folder:
            found = jobs.everything(Path(folder))
    elif what == "probes":
        found = steps.probed()
    else:
        asked = json.loads(Path(request).read_text())
        found = {name: steps.measured(shim, *job) for name, job in asked.items()}
    Path(report).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
