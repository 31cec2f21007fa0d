"""How a forked copy of the server becomes a job of its own."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import NoReturn


def become_job(work: Callable[[], int], *, log: str | None, close: tuple[int, ...]) -> NoReturn:
    """Leave the server's signals, files and process group, do the work, end with its exit code.

    Output goes to `log` until the work redirects it. Nothing of the server's is run on the way
    out: no handlers at exit, no flushing of buffers it had filled.
    """
    code = 1
    try:
        os.setpgid(0, 0)  # Ctrl-C and the server's end are not its own
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _redirect(log)
        for descriptor in close:
            os.close(descriptor)
        code = work()
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # the edge of the process: the traceback is all that can be left
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def forked() -> int:
    """`os.fork`, tried again for some seconds where the system has no process to spare."""
    for wait_s in (0.1, 1.0, 5.0):
        try:
            return os.fork()
        except BlockingIOError:  # EAGAIN: a limit on processes, which others' ends make room in
            time.sleep(wait_s)
    return os.fork()


def _redirect(log: str | None) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    if log is not None:
        opened = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        os.dup2(opened, 1)
        os.dup2(opened, 2)
        os.close(opened)
