"""Forked jobs: their modules are imported once, by the server, and forks become jobs."""

import contextlib
import importlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable
from importlib import metadata
from importlib.abc import MetaPathFinder
from typing import NoReturn

from sweeper.store import registry
from tasks.process import freeze_gc

# wandb.init imports the second for each run: a second of CPU time where torch is loaded.
WANDB = ("wandb", "wandb.sdk.launch.inputs.internal")
# Torchmetrics, and Lightning with it, imports these wherever they are installed: 0.8 s of 2.8 in
# all, and 0.6 s more with transformers. Nothing of torchmetrics is used here.
UNUSED = ("matplotlib", "scipy", "torchvision", "transformers")

_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW


def preload(logger: str) -> None:
    """Import the modules of jobs; W&B unless `logger` is "none"."""
    from tasks.parse import module_class

    with freeze_gc():
        for name in ("tasks.train", "tasks.training.job"):
            importlib.import_module(name)
        for name in registry.names(registry.TASKS):
            # A package's task is imported only by the jobs that use it.
            if not registry.made_of(registry.TASKS, name):
                module_class(name)
        # Some machines lack omegaconf or wandb.
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module("omegaconf")
            for name in () if logger == "none" else WANDB:
                importlib.import_module(name)


class NotInstalled(MetaPathFinder):
    """A finder that answers for UNUSED, before all others, that they are not installed."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        """Raise ModuleNotFoundError for a module of these packages, unless they are in use."""
        package = fullname.partition(".")[0]
        if package in UNUSED and package not in sys.modules:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)

    def find_distributions(
        self, context: metadata.DistributionFinder.Context
    ) -> tuple[()]:
        """Raise PackageNotFoundError for one of these packages, whose version is asked for."""
        if context.name in UNUSED:
            raise metadata.PackageNotFoundError(context.name)
        return ()


def import_lightning() -> None:
    """Import Lightning without packages that it would import only because they are installed."""
    finder = NotInstalled()
    sys.meta_path.insert(0, finder)
    try:
        importlib.import_module("pytorch_lightning")
    except ImportError:
        pass  # the next import of Lightning imports everything
    finally:
        sys.meta_path.remove(finder)


def become_job(
    work: Callable[[], int], *, log: str | None, close: tuple[int, ...]
) -> NoReturn:
    """Leave the server's signals, files and process group, do the work, exit with its code.

    Output goes to `log` until the work redirects it. No exit handler of the server runs, and no
    buffer that it filled is flushed.
    """
    code = 1
    try:
        os.setpgid(0, 0)  # apart from Ctrl-C and from the server's end
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for target, path in ((0, os.devnull), (1, log), (2, log)):
            if path is not None:
                opened = os.open(path, os.O_RDONLY if target == 0 else _APPEND, 0o600)
                os.dup2(opened, target)
                os.close(opened)
        for descriptor in close:
            os.close(descriptor)
        code = work()
    except SystemExit as error:
        code = (
            error.code if isinstance(error.code, int) else int(error.code is not None)
        )
    except BaseException:  # the edge of the process: the traceback goes to the log
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:  # on a full disk too: a child that goes on would be a second server
            os._exit(code)


def forked() -> int:
    """Return os.fork(); try again for some seconds at the limit on processes."""
    for wait_s in (0.1, 1.0, 5.0):
        try:
            return os.fork()
        except BlockingIOError:  # EAGAIN: a limit on processes
            time.sleep(wait_s)
    return os.fork()
