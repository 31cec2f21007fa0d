"""The ids of runs. An id contains a hash of all config keys that can change the run's result."""

import re
from collections.abc import Mapping
from typing import Any

from sweeper.store.files import sha256_of

# Sections and keys that do not change a run's result. The device and the number of threads change
# only the last bits of floats. attempt.json records both.
NOT_IN_IDENTITY = frozenset(
    {
        "logger",
        "data.root",  # data.digest identifies the text
        "trainer.accelerator",
        "trainer.devices",
        "trainer.num_nodes",
        "trainer.threads",
        "trainer.cuda_graph",  # a CUDA graph computes the same bits
        "trainer.micro_batches",  # the gradient is the same up to rounding
        "trainer.log_every",
        "trainer.validate_every",
        "trainer.checkpoint_every",
    }
)

DRAWN = "drawn"
"""The digest and the folder name of data that a task draws at random. Such data have no files."""

# Keys that later versions added, each with the value that earlier runs used implicitly. A config
# with this value has the same hash as a config without the key. Older records lack the key, so code
# that reads the key from a record must use this value as its default.
INTRODUCED_AS: dict[str, Any] = {
    "data.competitors": None,
    "data.directions": None,
    "model.attention.glorot": "matrix",
    "model.attention.qk_norm": False,
    "model.biases": True,
    "model.feedforward": "plain",
    "model.normalisation": "layer",
    "model.position_encoding": "sinusoidal",
    "model.rotary_base": 10000.0,
    "model.rotary_size": None,
    "model.scale_embeddings": True,
    "optimizer.name": "adamw",
    "task.joined": False,
}

# Most values have these types. Checking them first is faster than isinstance(value, Mapping).
_EXACT = frozenset({str, int, bool, type(None)})
PLAIN = _EXACT | {float}
_DIGEST = re.compile(r"-([0-9a-f]{12})$")


def identity(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the part of a config that is hashed into the run's id. Floats like 1.0 become 1.

    Args:
        config: a config, or a section of it.
        prefix: the dotted key of the section, with a dot at its end.
    """
    kept = {}
    for key, value in config.items():
        name = f"{prefix}{key}"
        if name in NOT_IN_IDENTITY or INTRODUCED_AS.get(name, ...) == value:
            continue
        if type(value) in PLAIN or not (isinstance(value, Mapping) and value):
            kept[str(key)] = _canonical(value)
        elif below := identity(value, f"{name}."):
            kept[str(key)] = below
    return kept


def can_change_results(key: str) -> bool:
    """Return whether a key, a section or a config group can change the result of a run."""
    cannot = (*NOT_IN_IDENTITY - {"data.root"}, "hydra", "paths", "name")
    return not any(
        key == one or key.startswith((f"{one}.", f"{one}/")) for one in cannot
    )


def leaves(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten a nested config to a dict with dotted keys. An empty section counts as a value."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        if type(value) in PLAIN or not (isinstance(value, Mapping) and value):
            found[f"{prefix}{key}"] = value
        else:
            found |= leaves(value, f"{prefix}{key}.")
    return found


def lookup(key: str, config: Mapping[str, Any]) -> Any:
    """Return the value of a dotted key. Raise KeyError if the config lacks the key."""
    value: Any = config
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise KeyError(f"no key {key}")
        value = value[part]
    return value


def digest_of(value: Any) -> str:
    """Return the sha256 of plain data in hex. Ignore the order of keys, and treat 1.0 as 1."""
    return sha256_of(_canonical(value))


def run_id(config: Mapping[str, Any]) -> str:
    """Return the id of a run: `<task>-d<embedding>-h<heads>[x<head size>]-s<seed>-<12 hex digits>`.

    The hash at the end identifies the run. The words before it make the id readable.
    """
    model = config.get("model") or {}
    words = [_word(config["task"]["name"])]
    if "embedding_size" in model:
        words.append(f"d{_word(model['embedding_size'])}")
    if "heads" in model:
        head_size = model.get("head_size")
        words.append(
            f"h{_word(model['heads'])}" + (f"x{_word(head_size)}" if head_size else "")
        )
    words.append(f"s{_word(config['seed'])}")
    return "-".join([*words, sha256_of(identity(config))[:12]])


def matches_hash(name: str, config: Mapping[str, Any]) -> bool:
    """Return whether a name ends in the hash of this config, or has no hash."""
    digest = _DIGEST.search(name)
    return digest is None or digest[1] == sha256_of(identity(config))[:12]


def _word(value: Any) -> str:
    letters = [letter for letter in str(value) if letter.isascii() and letter.isalnum()]
    return "".join(letters[:16]) or "x"


def _canonical(value: Any) -> Any:
    if type(value) in _EXACT:
        return value
    if isinstance(value, Mapping):
        return {str(key): _canonical(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(entry) for entry in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)  # 1e3 has the same hash as 1000, and -0.0 the same as 0
    return value
