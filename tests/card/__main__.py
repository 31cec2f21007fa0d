"""`python -m tests.card LIBRARY REQUEST REPORT`: probes, and a step of each config.

In a process of its own, which has the hooks of a CUDA device before it has torch.
"""

import ctypes
import json
import sys
from pathlib import Path


def main(library, request, report):
    shim = ctypes.CDLL(
        library, mode=ctypes.RTLD_GLOBAL
    )  # before torch, which looks once

    from tests.card import runtime, steps

    runtime.install()
    asked = json.loads(Path(request).read_text())
    found = {name: steps.measured(shim, config) for name, config in asked.items()}
    found["probes"] = steps.probed()
    Path(report).write_text(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
