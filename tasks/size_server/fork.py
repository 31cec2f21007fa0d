"""Functions for the jobs that the size server forks.

The size server imports PyTorch and the code of jobs once. Forked processes share the imported
modules, so that jobs start without delay.
"""

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

# Import these modules of W&B before forking. Otherwise, wandb.init would import `internal` in each
# run, which takes 1 s.
WANDB = ("wandb", "wandb.sdk.launch.inputs.internal")
# Lightning imports torchmetrics, which imports these packages if they are installed. This takes
# 1.4 s and is not needed, because this project does not use torchmetrics.
UNUSED = ("matplotlib", "scipy", "torchvision", "transformers")

_APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW


def preload(logger: str) -> None:
    """Import the modules that jobs need. Also import W&B, unless `logger` is "none"."""
    from tasks.parse import module_class

    with freeze_gc():
        for name in ("tasks.train", "tasks.training.job"):
            importlib.import_module(name)
        for name in registry.names(registry.TASKS):
            # Do not import the tasks of plugins. Only the jobs that use such a task import it.
            if not registry.made_of(registry.TASKS, name):
                module_class(name)
        # The packages omegaconf and wandb may not be installed.
        with contextlib.suppress(ModuleNotFoundError):
            importlib.import_module("omegaconf")
            for name in () if logger == "none" else WANDB:
                importlib.import_module(name)


class NotInstalled(MetaPathFinder):
    """A finder for sys.meta_path that hides the packages UNUSED, as if they were not installed."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        """Raise ModuleNotFoundError for a module of a hidden package.

        If the package is already imported, do nothing.
        """
        package = fullname.partition(".")[0]
        if package in UNUSED and package not in sys.modules:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)

    def find_distributions(
        self, context: metadata.DistributionFinder.Context
    ) -> tuple[()]:
        """Raise PackageNotFoundError for a hidden package. `metadata.version` calls this method."""
        if context.name in UNUSED:
            raise metadata.PackageNotFoundError(context.name)
        return ()


def import_lightning() -> None:
    """Import Lightning, but hide the packages UNUSED from it to save the time of their imports."""
    finder = NotInstalled()
    sys.meta_path.insert(0, finder)
    try:
        importlib.import_module("pytorch_lightning")
    except ImportError:
        # Lightning may need a hidden package. Ignore the error, because Lightning is imported again
        # later, when all packages are visible.
        pass
    finally:
        sys.meta_path.remove(finder)


def become_job(work: Callable[[], int], *, log: str | None) -> NoReturn:
    """Turn this forked process into a job: call `work`, and exit with the code that it returns.

    The job does not keep the server's signal handlers, process group and exit handlers.

    Args:
        log: the file for the job's output, until `work` redirects the output.
    """
    code = 1
    try:
        # Make this process the leader of a new process group. Ctrl-C does not reach the group, and
        # the server can kill the whole group.
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for target, path in ((0, os.devnull), (1, log), (2, log)):
            if path is not None:
                opened = os.open(path, os.O_RDONLY if target == 0 else _APPEND, 0o600)
                os.dup2(opened, target)
                os.close(opened)
        code = work()
    except SystemExit as error:
        code = (
            error.code if isinstance(error.code, int) else int(error.code is not None)
        )
    except BaseException:  # print any error to the log, because the process ends
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            # Exit even if the disk is full. Otherwise this process would go on as a second server.
            os._exit(code)


def forked() -> int:
    """Call os.fork and return its result. If there are too many processes, retry for 6 s.

    Raises:
        BlockingIOError: there are still too many processes.
    """
    for wait_s in (0.1, 1.0, 5.0):
        try:
            return os.fork()
        except BlockingIOError:  # EAGAIN: too many processes
            time.sleep(wait_s)
    return os.fork()
