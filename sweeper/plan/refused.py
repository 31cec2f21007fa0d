"""Refuse configs that name code to run, or that contain secrets.

With the key `_target_`, a config could make Hydra call any function. With a resolver such as
`${oc.env:KEY}`, a config could copy environment variables into saved files. Headroom needs neither
the key nor resolvers, since it finds tasks and models by name. The checks also cover the yaml files
in the folder of `--config-dir`.
"""

import math
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from sweeper.plan.yaml_limits import DEEPEST, LONGEST_NUMBER
from sweeper.store.errors import UserError, invalid_value, sanitize

CALLS = re.compile(r"_(target|partial|args|recursive|convert)_|\(\)")
LARGE = re.compile(rf"\d{{{LONGEST_NUMBER + 1}}}")
SECRET = re.compile(
    r"(?i)(api_?key|secret|passw(or)?d|credential|authorization|(^|_)token$)"
)
# Matches paths such as ../other, and names of files such as tiny.yaml. A config group accepts only
# the name of one of its files without the suffix, such as tiny.
AWAY = re.compile(r"[/\\$~]|\.\.|\.ya?ml(,|$)")
RESOLVER = re.compile(r"\$\{\s*[\w.]+\s*:")
# A command line may set only these parts of the section `hydra`.
HYDRA = (
    "hydra.sweeper.",
    "hydra.launcher.",
    "hydra/launcher",
    "hydra.mode",
    "hydra.verbose",
)
# The flags of a sweep: -m, and those that choose folders of yaml files and the primary config.
FOLDERS = frozenset("-cd --config-dir -cp --config-path -cn --config-name".split())
SWEEPS = FOLDERS | {"-m", "--multirun"}
WITH_VALUE = FOLDERS | frozenset("-c --cfg -p --package".split())
# Further flags with which Hydra prints help or the config. All others are refused, for example
# --experimental-rerun, which reads a pickle.
PRINTS = frozenset(
    "--resolve -h --help --hydra-help -i --info -sc --shell-completion".split()
)


def refuse_arguments(arguments: list[str]) -> None:
    """Raise UserError for arguments that must not reach Hydra, such as unknown flags.

    Call this before Hydra, because Hydra acts on flags and parses values before it calls the
    sweeper.
    """
    for before, argument in pairwise(["", *arguments]):
        flag = argument.partition("=")[0]
        if argument.startswith("-"):
            if flag not in SWEEPS | WITH_VALUE | PRINTS:
                raise UserError(
                    f"{sanitize(flag)} is not a flag of this program; --help lists the flags."
                )
        elif before not in WITH_VALUE:
            value = argument.partition("=")[2]
            brackets = argument.count("[") + argument.count("{")
            if LARGE.search(argument) or brackets > DEEPEST:
                digits = f"at most {LONGEST_NUMBER} digits in a number"
                most = f"{digits}, and at most {DEEPEST} brackets"
                raise invalid_value(flag, value[:30], most, "write a smaller value")
            refuse_key(flag)


def refuse_key(key: str) -> None:
    """Raise UserError if a command line may not use this key.

    `key` may begin with + or ~, with which Hydra adds or deletes a key.
    """
    plain = key.lstrip("+~")
    if plain == "hydra/sweeper":
        own = "Headroom works only with its own sweeper"
        raise UserError(f"hydra/sweeper cannot be set: {own}; leave it out.")
    if key.startswith("~") and not plain.startswith(("experiment.", "hydra")):
        raise UserError(
            f"{sanitize(key)}: keys of the config cannot be deleted; set another value, as in "
            "key=value."
        )
    foreign = re.match(r"hydra\b", plain) and not plain.startswith(HYDRA)
    if foreign or CALLS.search(plain):
        raise UserError(
            f"{sanitize(plain)} cannot be set, since it could make Hydra run code or write files; "
            "leave it out."
        )
    if plain.startswith("hydra.") and plain != key:
        raise UserError(
            f"{sanitize(key)}: Hydra's keys cannot be added or deleted; set the key as "
            f"{sanitize(plain)}=..."
        )


def refuse_path(key: str, value: str) -> None:
    """Raise UserError if an override chooses a yaml file by its path, as in `model=../other`."""
    if AWAY.search(value) or ".." in key:
        raise UserError(
            f"{sanitize(key)}={sanitize(value)}: expected the name of a file in "
            f"conf/{sanitize(key)}; put the file there and choose it by name."
        )


def refuse_tree(tree: Any) -> None:
    """Raise UserError if a config has a harmful key or value.

    `tree` is the config before interpolations are resolved. These are refused:

    - keys that name code to call, such as `_target_`
    - keys for secrets, such as `api_key`
    - resolvers, such as `${oc.env:HOME}`
    - infinite numbers and NaN
    """
    for key, value in _nodes(tree):
        name = key.rpartition(".")[2]
        if CALLS.fullmatch(name):
            raise UserError(
                f"{sanitize(key)}: a config may not call Python code; leave the key out."
            )
        if SECRET.search(name):
            raise UserError(
                f"{sanitize(key)} cannot be set: configs are saved and may not hold secrets; use "
                "an environment variable instead, such as WANDB_API_KEY."
            )
        if isinstance(value, float) and not math.isfinite(value):
            raise invalid_value(key, value, "a finite number", "correct the value")
        if isinstance(value, str) and RESOLVER.search(value):
            raise UserError(
                f"{sanitize(key)}: an interpolation may only refer to another key, as in "
                "${model.heads}; write the value itself."
            )


def _nodes(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted key, value) for each entry of nested dicts and lists, at every level."""
    listed = enumerate(tree) if isinstance(tree, list) else ()
    for key, value in tree.items() if isinstance(tree, Mapping) else listed:
        place = f"{path}.{key}" if path else str(key)
        yield place, value
        yield from _nodes(value, place)
