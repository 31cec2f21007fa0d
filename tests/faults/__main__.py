"""Run the fault suite: `python -m tests.faults [--quick] [--seed N] [--only WORD]`.

It prints a line of JSON for each case, and returns 1 if anything was lost.
"""

import argparse
import json
import os
import sys
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before any numeric library loads


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument(
        "--seed", type=int, default=1, help="the seed of all random choices"
    )
    parser.add_argument(
        "--quick", action="store_true", help="take two minutes, not forty"
    )
    parser.add_argument(
        "--only", default="", metavar="WORD", help="run cases with WORD in the name"
    )
    options = parser.parse_args()
    from tests.faults.suite import (
        cases,
    )  # late: torch and Lightning take seconds to import
    from tests.faults.sweep import settings

    warnings.simplefilter("ignore")
    lost = 0
    with settings(options.seed) as setting:
        for name, case in cases(setting, quick=options.quick):
            if options.only in name:
                begun = time.monotonic()
                count = case()
                count.seconds = time.monotonic() - begun
                lost += count.lost
                print(json.dumps(count.described()), flush=True)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
