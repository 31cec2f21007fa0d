"""Run the fault suite: `python -m tests.faults [--quick] [--seed N] [--only WORD]`.

It prints a line of JSON for each case, and returns 1 if anything was lost.
"""

import argparse
import json
import os
import sys
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before any numeric library loads


def main(arguments: list[str] | None = None) -> int:
    """Run the cases; return 1 if anything was lost."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="the seed of all random choices")
    parser.add_argument("--quick", action="store_true", help="take three minutes, not ninety")
    parser.add_argument(
        "--only", default="", metavar="WORD", help="run cases with WORD in the name"
    )
    about = "sweep of the case rounds: experiment=fig1 hydra.sweeper.max_seeds=6 (default: twins)"
    parser.add_argument("--sweep", nargs="+", default=[], metavar="KEY=VALUE", help=about)
    options = parser.parse_args(arguments)
    from tests.faults.suite import counts  # late: torch and Lightning take seconds to import

    warnings.simplefilter("ignore")
    lost = 0
    for count in counts(options.seed, quick=options.quick, only=options.only, typed=options.sweep):
        lost += count.lost
        print(json.dumps(count.described()), flush=True)
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
