"""What Hydra and OmegaConf find wrong, in the one sentence that a person can act on."""

from __future__ import annotations

import difflib
import traceback
from collections.abc import Iterable

import yaml
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    MissingMandatoryValue,
    OmegaConfBaseException,
    ReadonlyConfigError,
)

from sweeper.store.errors import UserError, invalid_value, sanitize
from sweeper.store.identity import leaves


def typed_wrongly(problem: Exception) -> bool:
    """Whether a person can mend it: Hydra and OmegaConf say most of that by exceptions of theirs,
    the system by an OSError.

    Hydra tells of a few mistakes by a ValueError; only where it was raised sets it apart from ours.
    """
    *_, (frame, _) = traceback.walk_tb(problem.__traceback__)
    by_hydra = str(frame.f_globals.get("__name__")).startswith("hydra.")
    ours = UserError | HydraException | OmegaConfBaseException | OSError
    return by_hydra or isinstance(problem, ours | yaml.YAMLError | UnicodeDecodeError)


def explained(problem: Exception) -> UserError:
    """The sentence for what came of composing a config, from the fields of the exception."""
    if isinstance(problem, UserError):
        return problem
    if isinstance(problem, yaml.YAMLError | UnicodeDecodeError):
        return _no_yaml(problem)
    if isinstance(problem, OverrideParseException):
        return unreadable(problem.override)
    if isinstance(problem, MissingConfigException) and problem.missing_cfg_file:
        return _no_such_file(problem.missing_cfg_file, problem.options or ())
    causes = (problem, problem.__cause__, problem.__context__)
    cause = next((one for one in causes if isinstance(one, OmegaConfBaseException)), None)
    if cause is None or not cause.full_key:
        return UserError(" ".join(str(problem).split()))
    return _no_such_value(cause)


def _no_such_value(cause: OmegaConfBaseException) -> UserError:
    if isinstance(cause, ConfigKeyError | ConfigAttributeError):
        return _no_such_key(cause)
    if isinstance(cause, ReadonlyConfigError):
        return UserError(
            f"{sanitize(cause.full_key)} cannot be set: a config names no code to call."
        )
    if isinstance(cause, MissingMandatoryValue):
        return UserError(f"{sanitize(cause.full_key)} is missing; give it a value.")
    said = str(cause.msg or cause).splitlines()[0].rstrip(".")
    return UserError(f"{sanitize(cause.full_key)}: {sanitize(said)}; correct the value.")


def unreadable(override: str) -> UserError:
    """The sentence for an argument that is no override."""
    return UserError(
        f"{sanitize(override)!r} cannot be read as an override; write key=value, or "
        "key=a,b,c for several values."
    )


REMOVED = {
    "hydra.sweeper.notify": "leave it out, and run your own command when sweep.py has ended",
    "tune.halving": "leave it out: every value is tried for tune.steps of the full length",
    "tune.transfer": "leave it out: rates are chosen by tune.per (arm, size or point)",
    "tune.arms": "leave it out: every arm is tuned with the same values",
    "tune.unequal": "leave it out: every arm is tuned with the same values",
    "hydra.launcher.gpu_memory_gb": (
        "memory is not predicted any more; set how many runs share a GPU, as in "
        "hydra.launcher.jobs_per_device=2"
    ),
}
"""Keys of earlier versions, without what may stand before them, each with what to do instead."""


def unknown_key(key: str, known: Iterable[str]) -> UserError:
    """Return the sentence for a key that does not exist, with the nearest ones that do."""
    for removed, remedy in REMOVED.items():
        if f".{removed}." in f".{key}.":
            return UserError(f"{sanitize(key)} was removed: {remedy}.")
    near = _near(key, list(known))
    hint = f"did you mean {' or '.join(near)}?" if near else "`--cfg all` prints every key."
    return UserError(f"{sanitize(key)} is not a key of the config; {hint}")


def _near(key: str, known: list[str]) -> list[str]:
    """Keys that end alike, or in what a short word stands for (lr: learning_rate), or similar."""
    last = key.rpartition(".")[2]
    ends = {one: one.rpartition(".")[2] for one in known}
    alike = [one for one, end in ends.items() if end == last]
    short = [one for one, end in ends.items() if "".join(w[:1] for w in end.split("_")) == last]
    return (alike or short)[:3] or difflib.get_close_matches(key, known, n=3, cutoff=0.6)


def _no_yaml(problem: Exception) -> UserError:
    mark = getattr(problem, "problem_mark", None)
    said = getattr(problem, "problem", None) or str(problem)
    place = f"{mark.name}, line {mark.line + 1}" if mark else "a yaml file"
    return UserError(
        f"{sanitize(place)} cannot be read as yaml: {sanitize(said)}; correct it there."
    )


def _no_such_key(error: OmegaConfBaseException) -> UserError:
    """Among the keys beside the wrong one and below them stands what was meant."""
    key, around = str(error.full_key), error.parent_node
    above = key.rpartition(".")[0]
    plain = OmegaConf.to_container(around) if isinstance(around, DictConfig) else {}
    assert isinstance(plain, dict)
    if not above and "hydra" in plain:  # of its keys those of the sweep alone may be meant
        plain["hydra"] = {"sweeper": plain["hydra"]["sweeper"]}
    tree = {str(name): value for name, value in plain.items()}
    return unknown_key(key, (known for known, _ in leaves(tree, f"{above}." if above else "")))


def _no_such_file(path: str, options: Iterable[str]) -> UserError:
    group, _, name = path.rpartition("/")
    expected = f"one of {', '.join(options) or 'the files in conf/'}"
    return invalid_value(
        group or "--config-name", name, expected, f"correct it, or add conf/{path}.yaml"
    )
