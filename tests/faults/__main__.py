"""`python -m tests.faults [--quick] [--seed N] [--only WORD]`: a line of JSON a case, 1 on loss."""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before any numeric library loads


def main(arguments: list[str] | None = None) -> int:
    """Run the cases; 1 if anything was lost."""
    options = _parser().parse_args(arguments)
    from tests.faults.suite import counts  # torch and Lightning take seconds

    warnings.simplefilter("ignore")
    lost = 0
    for count in counts(options.seed, quick=options.quick, only=options.only, typed=options.sweep):
        lost += count.lost
        print(json.dumps(count.described()), flush=True)
    return 1 if lost else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of everything random")
    parser.add_argument("--quick", action="store_true", help="a minute, not half an hour")
    parser.add_argument("--only", default="", metavar="WORD", help="cases whose name has it")
    told = "what case rounds sweeps: experiment=fig1 hydra.sweeper.max_seeds=6 (default: twins)"
    parser.add_argument("--sweep", nargs="+", default=[], metavar="KEY=VALUE", help=told)
    return parser


if __name__ == "__main__":
    sys.exit(main())
