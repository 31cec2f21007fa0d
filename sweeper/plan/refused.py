"""Refusal of configs that name code to run or hold secrets.

Hydra calls whatever a `_target_` names, and a resolver copies the environment into saved files.
This project needs neither: tasks and models are found by name. A folder named by `--config-dir` is
trusted like conf/, and its files are read under the same rules.
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
SECRET = re.compile(r"(?i)(api_?key|secret|passw(or)?d|credential|authorization|(^|_)token$)")
AWAY = re.compile(r"[/\\$~]|\.\.")  # in a name: a path, or what may become one
RESOLVER = re.compile(r"\$\{\s*[\w.]+\s*:")
# A key of the config inside an experiment, whose dots Hydra would take for sections of its yaml.
SUFFIX = re.compile(r"\.ya?ml(?=,|$)")
DOTTED = re.compile(r"(experiment\.(?:.+\.)?(?:set|grid))\.(.+\..+)")
# A command line may set only these parts of Hydra's own section.
HYDRA = ("hydra.sweeper.", "hydra.launcher.", "hydra/launcher", "hydra.mode", "hydra.verbose")
# Flags that belong to a sweep: whether it is one, and the owner's folders and primary config.
FOLDERS = frozenset("-cd --config-dir -cp --config-path -cn --config-name".split())
SWEEPS = FOLDERS | {"-m", "--multirun"}
WITH_VALUE = FOLDERS | frozenset("-c --cfg -p --package".split())
# Flags with which Hydra prints itself or the config; none of them reads a pickle.
TELLS = frozenset("--resolve -h --help --hydra-help -i --info -sc --shell-completion".split())
# Flags of other programs, and what to type here.
MEANT = {
    "--dry-run": "the plan alone is hydra.sweeper.dry_run=true",
    "--version": "headroom --version, or python -m sweeper --version, says it",
}


def refuse_arguments(arguments: list[str]) -> None:
    """Raise UserError for arguments that Hydra would act on before the sweep sees them."""
    for before, argument in pairwise(["", *arguments]):
        flag = argument.partition("=")[0]
        if argument.startswith("-"):
            if flag not in SWEEPS | WITH_VALUE | TELLS:
                meant = MEANT.get(flag, "--help lists its flags")
                raise UserError(f"{sanitize(flag)} is not a flag of this program; {meant}.")
        elif before not in WITH_VALUE:
            if LARGE.search(argument) or argument.count("[") + argument.count("{") > DEEPEST:
                most = f"numbers of at most {LONGEST_NUMBER} digits and {DEEPEST} brackets"
                raise invalid_value(
                    flag, argument.partition("=")[2][:30], most, "type a smaller value"
                )
            refuse_key(flag)
            if "=" in before and before.endswith(("=", ",")) and "=" not in argument:
                whole = f"{sanitize(before)}{sanitize(argument)}"
                raise UserError(f"{sanitize(before)} has no end; write {whole}, without spaces.")


def refuse_key(key: str) -> None:
    """Raise UserError for an override of a part of Hydra that a sweep does not use."""
    plain = key.lstrip("+~")
    if not plain:
        raise UserError(
            f"{sanitize(key)}=... has no key; write key=value without spaces, as in model.heads=4."
        )
    if plain == "hydra/sweeper":
        own = "grids are planned, matched and resumed by Headroom's own sweeper"
        raise UserError(f"hydra/sweeper cannot be set: {own}; leave it out.")
    if key.startswith("~") and not plain.startswith(("experiment.", "hydra")):
        raise UserError(f"{sanitize(key)}: no key can be left out of a config; write key=value.")
    if dotted := DOTTED.fullmatch(key.lstrip("+")):
        within, inside = map(sanitize, dotted.groups())
        raise UserError(f"{within} holds keys with dots; write +{within}={{{inside}:VALUE}}.")
    foreign = re.match(r"hydra\b", plain) and not plain.startswith(HYDRA)
    if foreign or CALLS.search(plain):
        raise UserError(
            f"{sanitize(plain)} cannot be set: a config names no code and no files of Hydra's; "
            "leave it out."
        )
    if plain.startswith("hydra.") and plain != key:
        raise UserError(
            f"{sanitize(key)}: Hydra's own keys are set, never added or taken out; write it as "
            f"{sanitize(plain)}=..."
        )


def refuse_path(key: str, typed: str) -> None:
    """Raise UserError for a choice of a yaml file by its suffix, or outside its folder of conf/."""
    if SUFFIX.search(typed):
        name = SUFFIX.sub("", typed)
        remedy = f"write {sanitize(key)}={sanitize(name)}"
        raise invalid_value(key, typed, "a name without .yaml", remedy)
    if AWAY.search(typed) or ".." in key:
        raise UserError(
            f"{sanitize(key)}={sanitize(typed)}: expected the name of a file in "
            f"conf/{sanitize(key)}; put the file there and choose it by name."
        )


def refuse_tree(tree: Any) -> None:
    """Raise UserError for code or a secret anywhere in an unresolved config."""
    for key, value in _nodes(tree):
        name = key.rpartition(".")[2]
        if CALLS.fullmatch(name):
            raise UserError(f"{sanitize(key)}: a config names no code to call; leave the key out.")
        if SECRET.search(name):
            raise UserError(
                f"{sanitize(key)}: secrets do not belong in a config, which is saved; give them in "
                "the environment, as WANDB_API_KEY is."
            )
        if isinstance(value, float) and not math.isfinite(value):
            raise invalid_value(key, value, "a number that is finite", "correct the value")
        if isinstance(value, str) and RESOLVER.search(value):
            raise UserError(
                f"{sanitize(key)}: of interpolations only those of other keys are read, as in "
                "${model.heads}; write the value itself."
            )


def _nodes(tree: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    listed = enumerate(tree) if isinstance(tree, list) else ()
    for key, value in tree.items() if isinstance(tree, Mapping) else listed:
        place = f"{path}.{key}" if path else str(key)
        yield place, value
        yield from _nodes(value, place)
