"""The command `headroom`, with which users of an installed package run all commands.

- `headroom sweep` runs sweep.py.
- `headroom train RUN` and `headroom export` run `python -m tasks.train RUN` and `python -m
  tasks.export`.
- Any other command, such as `headroom status` or `headroom train` without a run, runs `python -m
  sweeper` with the same arguments.
"""

import runpy
import sys

from headroom_attention import HOUSE


def main() -> int:
    """Run the command in sys.argv and return the exit code."""
    if sys.argv[1:2] == ["sweep"]:
        del sys.argv[1]
        runpy.run_path(str(HOUSE / "sweep.py"), run_name="__main__")
        return 0
    command, argument = [*sys.argv[1:3], "", ""][:2]
    one_run = command == "train" and argument and not argument.startswith("-")
    if one_run or command == "export":
        runpy.run_module(
            f"tasks.{sys.argv.pop(1)}", run_name="__main__", alter_sys=True
        )
    from sweeper.__main__ import main

    return main(program="headroom")


if __name__ == "__main__":
    sys.exit(main())
