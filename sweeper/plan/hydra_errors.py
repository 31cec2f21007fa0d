"""Convert errors of Hydra and OmegaConf into sentences that tell the user what to do."""

import difflib
import traceback
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from typing import Any

import yaml
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import (
    ConfigAttributeError,
    ConfigKeyError,
    OmegaConfBaseException,
    ReadonlyConfigError,
)

from sweeper.store import registry
from sweeper.store.errors import INSTALLED, SYNONYMS, UserError, invalid_value, sanitize
from sweeper.store.identity import leaves


def is_interrupt(problem: BaseException | None) -> bool:
    """Return whether Ctrl-C or SIGTERM caused the exception, directly or indirectly.

    If a signal interrupts OmegaConf while it changes a config, OmegaConf may raise another error.
    """
    return problem is not None and (
        isinstance(problem, KeyboardInterrupt) or is_interrupt(problem.__context__)
    )


def is_user_error(problem: Exception) -> bool:
    """Return whether the user can correct the problem, so that a traceback would not help.

    The user can correct errors of Hydra, OmegaConf, yaml and the operating system, and can install
    a missing library. Other exceptions, such as ValueError, may be bugs in Headroom. So return True
    for such an exception only if a module of Hydra raised it.
    """
    *_, (frame, _) = traceback.walk_tb(problem.__traceback__)
    by_hydra = str(frame.f_globals.get("__name__")).startswith("hydra.")
    if isinstance(problem, ImportError):
        return not str(problem.name).startswith(("sweeper", "tasks", "models"))
    ours = UserError | HydraException | OmegaConfBaseException | OSError | MemoryError
    return by_hydra or isinstance(problem, ours | yaml.YAMLError | UnicodeDecodeError)


def explained(problem: Exception) -> UserError:
    """Convert an error, such as one of Hydra, into a UserError. Return a UserError unchanged."""
    if isinstance(problem, UserError):
        return problem
    if mark := getattr(problem, "problem_mark", None):
        place = sanitize(f"{mark.name}, line {mark.line + 1}")
        reason = sanitize(getattr(problem, "problem", None) or problem)
        return UserError(f"{place} cannot be read as yaml: {reason}; correct the file.")
    if isinstance(problem, MissingConfigException) and problem.missing_cfg_file:
        return _no_such_file(problem.missing_cfg_file, problem.options or ())
    for cause in (problem, problem.__cause__, problem.__context__):
        if isinstance(cause, OmegaConfBaseException) and cause.full_key:
            return _of_key(cause)
    words = sanitize(" ".join(str(problem).split()), 700).rstrip(".")
    if isinstance(problem, OverrideParseException):
        words = f"{sanitize(problem.override)} cannot be read as an override: {words}"
    return UserError(words if words.endswith("?") else f"{words}.")


def _of_key(cause: OmegaConfBaseException) -> UserError:
    """Return the UserError for a key that is unknown or has an invalid value."""
    key = sanitize(cause.full_key)
    if isinstance(cause, ReadonlyConfigError):
        return UserError(
            f"{key} cannot be set, since a config may not name code to call; leave it out."
        )
    if not isinstance(cause, ConfigKeyError | ConfigAttributeError):
        reason = str(cause.msg or cause).splitlines()[0].rstrip(".")
        return UserError(f"{key}: {sanitize(reason)}; correct the value.")
    tree: Any = {}
    if isinstance(cause.parent_node, DictConfig):
        tree = OmegaConf.to_container(cause.parent_node._get_root()) or {}
    if "hydra" in tree:
        # Suggest only the parts of Hydra's section that a command line may set.
        hydra = tree["hydra"]
        tree["hydra"] = {part: hydra[part] for part in ("sweeper", "launcher")}
    tree["experiment"] = None  # do not suggest keys of arms
    return unknown_key(str(cause.full_key), leaves(tree))


def no_experiment_in(name: str) -> UserError:
    """Return the UserError for a yaml file that does not describe an experiment."""
    return UserError(
        f"experiment={name}: experiment/{name}.yaml describes no experiment. Its first line must "
        "be '# @package _global_' (without a byte order mark), and its keys must be below "
        "`experiment:`."
    )


def _no_such_file(path: str, known: Iterable[str]) -> UserError:
    """Return the UserError for a missing config file. Suggest the closest of the `known` names."""
    group, _, name = path.rpartition("/")
    if not group:
        return UserError(
            f"There is no primary config {sanitize(name)}.yaml; correct --config-name. To add yaml "
            "files to conf/, write --config-dir FOLDER instead of --config-path, which replaces "
            "conf/."
        )
    choice = f"{group}={name}"
    if choice in REMOVED:
        return UserError(f"{choice} was removed: {REMOVED[choice]}.")
    if group == "hydra/launcher":
        # Suggest only Headroom's backends; Hydra's own launchers do not work here.
        known = registry.names(registry.BACKENDS)
    options = {one.lower(): one for one in known}
    meant = SYNONYMS.get(name.lower(), name.lower())
    same = [meant] if meant in options else []
    if near := same or difflib.get_close_matches(name.lower(), options):
        expected = f"a file in conf/{group}"
        remedy = did_you_mean(options[one] for one in near)
    else:
        expected = f"one of {', '.join(options.values()) or 'the files in conf/'}"
        added = f"{path}.yaml to a folder that --config-dir names"
        remedy = (
            f"correct the name, or add {added if INSTALLED else f'conf/{path}.yaml'}"
        )
    return invalid_value(group, name, expected, remedy)


REMOVED = {
    "hydra.sweeper.notify": "leave it out, and run your own command when sweep.py has ended",
    "hydra.sweeper.fail_fast": "write hydra.sweeper.equal_failures=1",
    "hydra.sweeper.on_oom": "write trainer.micro_batches=auto",
    "hydra.sweeper.pilot": "train two seeds with seed=0,1, and then run `python -m sweeper decide`",
    "arms.*.seeds": "leave it out; all arms of an experiment have the same seeds",
    "tune.steps": (
        "leave it out; all trials train in full, since short trials favour high learning rates"
    ),
    "tune.halving": "leave it out, since each trial trains all steps",
    "tune.transfer": "leave it out, since each arm's smallest and largest model are tuned",
    "tune.per": "leave it out, since each arm's smallest and largest model are tuned first",
    "tune.arms": "leave it out, since every arm is tuned with the same values",
    "tune.unequal": "leave it out, since every arm is tuned with the same values",
    "hydra.launcher.leave": "leave it out, and run the sweep in tmux or submit it with sbatch",
    "hydra.launcher.job_min": (
        "set how many runs share a job, as in hydra.launcher.runs_per_job=10"
    ),
    "hydra.launcher.gpu_memory_gb": (
        "Headroom does not predict memory any more; set how many runs share a GPU, as in "
        "hydra.launcher.jobs_per_device=2"
    ),
    "experiment=scaling": "choose another experiment; fig3 compares the same arms at one scale",
    "experiment=heads_vs_rank": (
        "choose another experiment; equal_width compares few large heads with many small ones"
    ),
    "task=nearest_neighbour": (
        "choose another task, such as representation, which needs no text either"
    ),
}
"""Removed keys and options of earlier versions, and what to do instead.

An entry also applies to longer keys that contain it. For example, `tune.steps` applies to
`experiment.tune.steps`. A `*` stands for any text.
"""


def unknown_key(key: str, known: Collection[str]) -> UserError:
    """Return the UserError for an unknown key. The message suggests similar keys from `known`."""
    for removed, remedy in REMOVED.items():
        if fnmatchcase(f".{key}.", f"*.{removed}.*"):
            return UserError(f"{sanitize(key)} was removed: {remedy}.")
    sections = [one.rpartition(".")[0] for one in known]
    ends = {one: one.rpartition(".")[2] for one in (*known, *sections)}
    section, _, last = key.replace("/", ".").rpartition(".")
    last = SYNONYMS.get(last, last)
    similar = difflib.get_close_matches(last, {*ends.values()})
    near = [one for one, end in ends.items() if end == last]
    near = near or [
        one for one, end in ends.items() if end in similar or end.startswith(last)
    ]
    # Suggest keys of the same section first.
    near.sort(key=lambda one: one.rpartition(".")[0] != section)
    hint = "`--cfg all` and docs/experiments.md list all keys."
    if near:
        hint = did_you_mean(near)
    return UserError(f"{sanitize(key)} is not a key of the config; {hint}")


def did_you_mean(near: Iterable[str]) -> str:
    """Return a question such as "did you mean fig3 or fig4?", with at most three names."""
    return f"did you mean {' or '.join([*near][:3])}?"
