"""Set-up of the process that runs a command."""

import gc
import os
import sys
from io import TextIOWrapper


def settle_process() -> None:
    """Make a command independent of the streams, variables and permissions it was started with.

    The function also makes Python collect garbage less often.
    """
    # Tables of many runs hold millions of objects that live as long as the command. By default,
    # Python searches for garbage after every 700 new objects, a sixth of the command's time.
    gc.set_threshold(100_000)
    os.umask(0o077)  # files are for the owner alone (SECURITY.md)
    os.environ.pop("MPLBACKEND", None)  # figures are drawn into files
    if os.environ.get("COLUMNS") == "0":  # of a terminal that does not know its width
        del os.environ["COLUMNS"]
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except (
            OSError
        ):  # closed by the caller: the next file to be opened would take its number
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
            setattr(
                sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8")
            )
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(
                errors="backslashreplace"
            )  # a terminal may know ASCII alone
