"""The set-up of a process that runs a command."""

import gc
import os
import sys
from io import TextIOWrapper


def settle_process() -> None:
    """Prepare this process for a command.

    Make new files readable only by their owner. Replace closed standard streams. Remove environment
    variables that would disturb figures or printed tables. Make Python collect garbage less often.
    """
    # Tables of many runs hold millions of objects that live as long as the command. By default,
    # Python searches for garbage after every 700 new objects, which took a sixth of a command's
    # time.
    gc.set_threshold(100_000)
    os.umask(0o077)  # only the owner may read the files (SECURITY.md)
    os.environ.pop("MPLBACKEND", None)  # figures are drawn to files, not to a window
    # Some terminals that do not know their width set COLUMNS to 0, which rich would believe.
    if os.environ.get("COLUMNS") == "0":
        del os.environ["COLUMNS"]
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            # The stream is closed. Open os.devnull with its file descriptor. Otherwise, the next
            # opened file would get this descriptor, and printed lines would end up in that file.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
            setattr(
                sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8")
            )
    for stream in (sys.stdout, sys.stderr):
        # Escape characters that the stream's encoding lacks.
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
