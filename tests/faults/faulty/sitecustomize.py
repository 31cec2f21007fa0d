"""Has calls that name something below a folder fail now and then, as a bad disk and NFS do.

Python imports this first in every process that finds it on PYTHONPATH.

    FAULTY_FOLDER   below which    FAULTY_RATE   how often    FAULTY_SEED   of the dice
"""

import builtins
import errno
import io
import os
import random
from collections.abc import Callable
from typing import Any

FOLDER = os.environ["FAULTY_FOLDER"]
RATE = float(os.environ["FAULTY_RATE"])
ERRNOS = (errno.EIO, errno.EINTR, errno.EACCES, errno.ENOENT)
CALLS = "open mkdir rename replace link unlink scandir listdir stat lstat".split()
dice = random.Random()


def throw() -> None:
    """Give each process dice of its own."""
    dice.seed(f"{os.environ['FAULTY_SEED']} {os.getpid()}")


def faulty(call: Callable[..., Any]) -> Callable[..., Any]:
    """A call that fails now and then where its first argument is a path below the folder."""

    def wrapped(path: Any = ".", *rest: Any, **named: Any) -> Any:
        below = isinstance(path, str | os.PathLike) and str(os.fspath(path)).startswith(
            FOLDER
        )
        if below and dice.random() < RATE:
            number = dice.choice(ERRNOS)
            raise OSError(number, os.strerror(number), os.fspath(path))
        return call(path, *rest, **named)

    return wrapped


throw()
os.register_at_fork(after_in_child=throw)
for name in CALLS:
    setattr(os, name, faulty(getattr(os, name)))
builtins.open = io.open = faulty(io.open)
