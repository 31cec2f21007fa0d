"""Blocks compiled by `torch.compile`: each shape once for all runs that share an outputs folder.

    outputs/compiled/<processor>/   Inductor's caches, and a lock for each graph

A run that finds its graph there loads it; one that needs what another is compiling waits for that.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch._dynamo import lookup_backend
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

CHOSEN = "TORCHINDUCTOR_CACHE_DIR"  # where a person may name a folder for all that they compile


def compile_blocks(model: nn.Module, outputs: Path, own: Path) -> None:
    """Have each Transformer block compiled where it is first called: one graph serves all blocks.

    `own`: a folder for what this job then compiles for itself where the shared one is of no use.
    """
    backend = SharedCompiler(shared_folder(outputs), own)
    for block in _blocks(model):
        block.compile(backend=backend)


def shared_folder(outputs: Path) -> Path:
    """Return the folder of what is compiled, which a person may have chosen."""
    chosen = os.environ.get(CHOSEN)
    # When torch is imported it sets its default, in a place that all users of a machine share.
    if chosen is not None and Path(chosen) != Path(default_cache_dir()).absolute():
        return Path(chosen)
    # What is compiled for one processor may be no code of another that sees the same disk.
    return outputs / "compiled" / instructions()


class SharedCompiler:
    """Inductor, which compiles in a shared folder what it does not find there.

    Where that folder cannot be written, or holds what Inductor cannot read, it compiles in `own`.
    """

    def __init__(self, shared: Path, own: Path) -> None:
        # The compiler is started in folders of its own.
        self._folder, self._own = shared.absolute(), own.absolute()
        self._inductor: Callable[..., Callable[..., Any]] = lookup_backend("inductor")

    def __call__(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        if self._folder != self._own:
            try:
                return self._compiled(graph, inputs)
            except Exception as error:  # damaged files make torch and the linker raise anything
                print(f"{self._folder} is not used to compile: {sanitize(message_of(error))}")
                self._folder = self._own
                inductor_config.cpp_cache_precompile_headers = False  # large; worth it if shared
                clear_caches()
        return self._compiled(graph, inputs)

    def _compiled(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        make_directory(self._folder)
        os.environ[CHOSEN] = str(self._folder)
        # These stay in the default folder whatever is chosen; others could put their own there.
        codecache._HEADER_DIR = str(self._folder / "precompiled_headers")
        codecache._HEADER_LOCK_DIR = str(self._folder / "precompiled_headers" / "locks")
        # The backward pass, too, is compiled here, under the lock, and not when it is first called.
        at_once = autograd_config.patch(force_non_lazy_backward_lowering=True)
        with held(self._folder / _name(graph, inputs)), at_once:
            return self._inductor(graph, inputs)


def _name(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> str:
    """Equal for graphs that are compiled to the same; where others share it, they only wait."""
    shapes = [tuple(one.shape) if isinstance(one, torch.Tensor) else one for one in inputs]
    text = f"{torch.is_grad_enabled()} {shapes} {graph.code}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _blocks(model: nn.Module) -> list[nn.Module]:
    """The Transformer blocks of a model, wherever it holds them."""
    lists = [part for name, part in model.named_modules() if name.rpartition(".")[2] == "blocks"]
    return [block for part in lists for block in part.children()]
