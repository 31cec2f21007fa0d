"""What a job imports before its first step: by the server once, instead of by every job."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from importlib import metadata
from unittest.mock import patch

from tasks.training.gc_freeze import lasting

# The second is what wandb.init imports for each run: a second of CPU time where torch is loaded.
WANDB = ("wandb", "wandb.sdk.launch.inputs.internal")
# What torchmetrics, and Lightning with it, imports wherever it is installed: 0.8 s of 2.8 in all,
# and 0.6 s more with transformers. Nothing of torchmetrics is used here.
UNUSED = ("matplotlib", "scipy", "torchvision", "transformers")


def preload(logger: str) -> None:
    """Import it; W&B only where `logger` is not "none"."""
    with lasting():
        # If it can't be done so, what asks for Lightning next imports all of it.
        with contextlib.suppress(ImportError), _hidden(UNUSED):
            importlib.import_module("pytorch_lightning")
        for name in ("tasks.train", "tasks.training.attempt"):
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
