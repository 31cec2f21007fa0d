"""The command `headroom`: `headroom sweep` runs sweep.py, all else `python -m sweeper`."""

import runpy
import sys

from headroom_attention import HOUSE


def main() -> int:
    """Run the command line and return the exit code."""
    if sys.argv[1:2] == ["sweep"]:
        del sys.argv[1]
        runpy.run_path(str(HOUSE / "sweep.py"), run_name="__main__")
        return 0
    from sweeper.__main__ import main

    return main(program="headroom")


if __name__ == "__main__":
    sys.exit(main())
