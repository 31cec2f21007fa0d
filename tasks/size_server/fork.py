"""What a job imports before its first step: by the server once, instead of by every job."""

from __future__ import annotations

import contextlib
import importlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from importlib import metadata
from typing import NoReturn
from unittest.mock import patch

from tasks.training.gc_freeze import freeze_gc

# The second is what wandb.init imports for each run: a second of CPU time where torch is loaded.
WANDB = ("wandb", "wandb.sdk.launch.inputs.internal")
# What torchmetrics, and Lightning with it, imports wherever it is installed: 0.8 s of 2.8 in all,
# and 0.6 s more with transformers. Nothing of torchmetrics is used here.
UNUSED = ("matplotlib", "scipy", "torchvision", "transformers")


def preload(logger: str) -> None:
    """Import it; W&B only where `logger` is not "none"."""
    with freeze_gc():
        # If it can't be done so, what asks for Lightning next imports all of it.
        with contextlib.suppress(ImportError), _hidden(UNUSED):
            importlib.import_module("pytorch_lightning")
        for name in ("tasks.train", "tasks.training.job"):
            importlib.import_module(name)
        with contextlib.suppress(ModuleNotFoundError):  # both are absent on some machines
            importlib.import_module("omegaconf")
            for name in () if logger == "none" else WANDB:
                importlib.import_module(name)


@contextlib.contextmanager
def _hidden(packages: tuple[str, ...]) -> Iterator[None]:
    """Have Lightning's libraries believe that these packages are not installed."""
    from lightning_utilities.core import imports

    def version(package: str) -> str:
        if package in packages:
            raise metadata.PackageNotFoundError(package)
        return metadata.version(package)

    hidden = [package for package in packages if package not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None: not to be imported
    try:
        with patch.object(imports, "_version", version, create=True):
            yield
    finally:
        for package in hidden:
            del sys.modules[package]


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
