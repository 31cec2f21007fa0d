"""What no config may hold, whoever wrote it: code to run, and secrets.

Hydra calls whatever a `_target_` names, and a resolver reads the environment into what is saved.
This project needs neither: tasks and models are found by name among its own files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sweeper.store.errors import UserError, shown

CALLS = re.compile(r"_(target|partial|args|recursive|convert)_|\(\)")
SECRET = re.compile(r"(?i)(api_?key|secret|passw(or)?d|credential|authorization|(^|_)token$)")
AWAY = re.compile(r"[/\\$~]|\.\.")  # in a name: a path, or what may become one
RESOLVER = re.compile(r"\$\{\s*[\w.]+\s*:")
# Of Hydra's own section a command line, or a yaml file it names, may touch these alone.
HYDRA = ("hydra.sweeper.", "hydra.launcher.", "hydra/launcher", "hydra.mode")
# The rest of it that would be called or would read files, and so has to be as conf/ leaves it.
HYDRA_CALLS = ("callbacks", "job_logging", "hydra_logging", "searchpath")
OURS = "hydra_plugins.headroom."
FLAGS = frozenset(
    "-m --multirun -c --cfg --resolve -p --package -h --help --hydra-help -i --info -sc "
    "--shell-completion".split()
)


def refuse_flags(arguments: list[str]) -> None:
    """UserError for a flag of Hydra's that reads files from elsewhere, or pickles."""
    for argument in arguments:
        flag = argument.partition("=")[0]
        if flag.startswith("-") and flag not in FLAGS:
            raise UserError(
                f"{shown(flag)} is not a flag of this program; it reads conf/ alone, so put "
                "the file there and choose it by name."
            )


def refuse_key(key: str) -> None:
    """UserError for an override of a part of Hydra that is none of a sweep's business."""
    plain = key.lstrip("+~")
    foreign = plain.startswith("hydra") and not plain.startswith(HYDRA)
    if foreign or CALLS.search(plain):
        raise UserError(
            f"{shown(plain)} cannot be set: a config names no code and no files of Hydra's; "
            "leave it out."
        )


def refuse_path(key: str, typed: str) -> None:
    """UserError for a choice of a yaml file that could lie anywhere but in its folder of conf/."""
    if AWAY.search(typed) or ".." in key:
        raise UserError(
            f"{shown(key)}={shown(typed)}: expected the name of a file in conf/{shown(key)}; "
            "put the file there and choose it by name."
        )


def refuse_tree(tree: Any, path: str = "") -> None:
    """UserError for code or a secret anywhere in a config whose interpolations are unresolved."""
    for key, value in _nodes(tree, path):
        name = key.rpartition(".")[2]
        if CALLS.fullmatch(name):
            raise UserError(f"{shown(key)}: a config names no code to call; leave the key out.")
        if SECRET.search(name):
            raise UserError(
                f"{shown(key)}: secrets do not belong in a config, which is saved; give them in "
                "the environment, as WANDB_API_KEY is."
            )
        if isinstance(value, str) and RESOLVER.search(value):
            raise UserError(
                f"{shown(key)}: of interpolations only those of other keys are read, as in "
                "${model.heads}; write the value itself."
            )


def refuse_hydra(given: Mapping[str, Any], usual: Mapping[str, Any]) -> None:
    """UserError where a composed `hydra` section would call what conf/ alone does not have."""
    for name in HYDRA_CALLS:
        if given.get(name) != usual.get(name):
            raise UserError(f"hydra.{name} cannot be set: a config names no code; leave it out.")
    target = str(given["sweeper"].get("_target_"))
    if not target.startswith(OURS):
        raise UserError(
            f"hydra.sweeper._target_={shown(target)}: expected this project's; leave it out."
        )
    if "_target_" in given["launcher"]:  # a backend is a name, and nothing of it is called
        target = shown(given["launcher"]["_target_"])
        raise UserError(
            f"hydra.launcher._target_={target} cannot be set; choose by hydra/launcher=..."
        )


def _nodes(tree: Any, path: str) -> Iterator[tuple[str, Any]]:
    entries = (
        tree.items()
        if isinstance(tree, Mapping)
        else enumerate(tree)
        if isinstance(tree, list)
        else ()
    )
    for key, value in entries:
        place = f"{path}.{key}" if path else str(key)
        yield place, value
        yield from _nodes(value, place)
