"""Compilation of blocks by `torch.compile`, once a shape for all runs of an outputs folder.

    outputs/compiled/<processor>/   Inductor's caches, and a lock for each graph

A run loads its graph if it is there, and waits while another run compiles it.
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._dynamo import lookup_backend
from torch._dynamo.exc import RestartAnalysis
from torch._functorch import config as autograd_config
from torch._inductor import codecache
from torch._inductor import config as inductor_config
from torch._inductor.runtime.cache_dir_utils import default_cache_dir
from torch._inductor.utils import clear_caches

from sweeper.store.errors import sanitize
from sweeper.store.files import make_directory
from sweeper.store.liveness import held
from tasks.training.causes import message_of
from tasks.training.machine import instructions

CHOSEN = "TORCHINDUCTOR_CACHE_DIR"  # where a user may name a folder for everything they compile


def compile_blocks(model: nn.Module, outputs: Path, own: Path) -> None:
    """Compile each Transformer block at its first call; `own`: used if the shared folder fails."""
    backend = SharedCompiler(shared_folder(outputs), own)
    for name, part in model.named_modules():
        if name.rpartition(".")[2] == "blocks":
            for block in part.children():
                block.compile(backend=backend)


def shared_folder(outputs: Path) -> Path:
    """Return the shared folder of compiled code, which the user may have chosen."""
    chosen = os.environ.get(CHOSEN)
    # At import torch sets its default: a place that all users of a machine share.
    if chosen is not None and Path(chosen) != Path(default_cache_dir()).absolute():
        return Path(chosen)
    # Code compiled for one processor may not run on another that sees the same disk.
    return outputs / "compiled" / instructions()


class SharedCompiler:
    """Inductor with a shared folder; if that cannot be read or written, it compiles in `own`."""

    def __init__(self, shared: Path, own: Path) -> None:
        # The compiler starts in another working directory.
        self._folder, self._own = shared.absolute(), own.absolute()
        self._inductor: Callable[..., Callable[..., Any]] = lookup_backend("inductor")

    def __call__(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        if self._folder != self._own:
            try:
                return self._compiled(graph, inputs)
            except RestartAnalysis:  # torch traces the block again, with other assumptions
                raise
            except Exception as error:  # damaged files make torch and the linker raise anything
                print(f"{self._folder} is not used to compile: {sanitize(message_of(error))}")
                self._folder = self._own
                inductor_config.cpp_cache_precompile_headers = False  # large; worth it if shared
                clear_caches()
        return self._compiled(graph, inputs)

    def _compiled(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        make_directory(self._folder)
        os.environ[CHOSEN] = str(self._folder)
        # By default these stay in a folder where other users could put their own.
        codecache._HEADER_DIR = str(self._folder / "precompiled_headers")
        codecache._HEADER_LOCK_DIR = str(self._folder / "precompiled_headers" / "locks")
        # Compile the backward pass here too, under the lock, not at its first call.
        at_once = autograd_config.patch(force_non_lazy_backward_lowering=True)
        # Equal graphs have one lock; graphs that share it by chance only wait.
        shapes = [tuple(one.shape) if isinstance(one, torch.Tensor) else one for one in inputs]
        text = f"{torch.is_grad_enabled()} {shapes} {graph.code}"
        lock = self._folder / hashlib.sha256(text.encode()).hexdigest()[:16]
        with held(lock), at_once:
            return self._inductor(graph, inputs)
