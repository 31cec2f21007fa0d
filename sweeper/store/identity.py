"""Names of runs: a hash of everything in the config that can change the result."""

import re
from collections.abc import Mapping
from typing import Any

from sweeper.store.files import sha256_of

# Sections and keys that decide how a run is executed or shown, never what it computes.
# (Thread count and device move the last bits of a float; the attempt records them.)
NOT_IN_IDENTITY = frozenset(
    {
        "logger",
        "data.root",  # data.digest says what the text is, wherever it lies
        "trainer.accelerator",
        "trainer.devices",
        "trainer.num_nodes",
        "trainer.threads",
        "trainer.cuda_graph",  # used where it gives the same bits
        "trainer.micro_batches",  # up to rounding the gradient is that of the whole batch
        "trainer.log_every",
        "trainer.validate_every",
        "trainer.checkpoint_every",
    }
)

# The value that older runs had in effect for keys that were added later, so that adding the key
# renames no run. Code that reads a config has the same default: older records lack the key.
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

# Looked up first, since most values are such, and Mapping takes long to ask for.
_EXACT = frozenset({str, int, bool, type(None)})
PLAIN = _EXACT | {float}
_DIGEST = re.compile(r"-([0-9a-f]{12})$")


def identity(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the part of a config that names its run, with 1 in place of 1.0.

    `prefix` stands before the keys of a section.
    """
    kept = {}
    for key, value in config.items():
        name = f"{prefix}{key}"
        if name in NOT_IN_IDENTITY or INTRODUCED_AS.get(name, ...) == value:
            continue
        if type(value) in PLAIN or not (isinstance(value, Mapping) and value):
            kept[str(key)] = _canonical(value)
        elif below := identity(value, f"{name}."):  # a section may have come as a whole
            kept[str(key)] = below
    return kept


def can_change_results(key: str) -> bool:
    """Return whether a key, section or group can change what a run computes."""
    cannot = (*NOT_IN_IDENTITY - {"data.root"}, "hydra", "paths", "name")
    return not any(key == one or key.startswith((f"{one}.", f"{one}/")) for one in cannot)


def leaves(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the values of a config by dotted key; an empty section is a value."""
    found: dict[str, Any] = {}
    for key, value in config.items():
        if type(value) in PLAIN or not (isinstance(value, Mapping) and value):
            found[f"{prefix}{key}"] = value
        else:
            found |= leaves(value, f"{prefix}{key}.")
    return found


def lookup(key: str, config: Mapping[str, Any]) -> Any:
    """Return the value under a dotted key; KeyError if there is none."""
    value: Any = config
    for part in key.split("."):
        if not isinstance(value, Mapping) or part not in value:
            raise KeyError(f"no key {key}")
        value = value[part]
    return value


def digest_of(value: Any) -> str:
    """Return the sha256 of a plain value in hex, the same for any key order and for 1 and 1.0."""
    return sha256_of(_canonical(value))


def run_id(config: Mapping[str, Any]) -> str:
    """Return `<task>-d<embedding>-h<heads>[x<head size>]-s<seed>-<12 hex digits>`.

    The words before the hash are for people; the hash alone is the identity.
    """
    model = config.get("model") or {}
    words = [_word(config["task"]["name"])]
    if "embedding_size" in model:
        words.append(f"d{_word(model['embedding_size'])}")
    if "heads" in model:
        head_size = model.get("head_size")
        words.append(f"h{_word(model['heads'])}" + (f"x{_word(head_size)}" if head_size else ""))
    words.append(f"s{_word(config['seed'])}")
    return "-".join([*words, sha256_of(identity(config))[:12]])


def named_by(name: str, config: Mapping[str, Any]) -> bool:
    """Return whether a name ends in this config's digest, or in no digest at all."""
    digest = _DIGEST.search(name)
    return digest is None or digest[1] == sha256_of(identity(config))[:12]


def _word(value: Any) -> str:
    return "".join(c for c in str(value) if c.isascii() and c.isalnum())[:16] or "x"


def _canonical(value: Any) -> Any:
    if type(value) in _EXACT:
        return value
    if isinstance(value, Mapping):
        return {str(key): _canonical(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(entry) for entry in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)  # 1e3 and 1000 are one value; -0.0 and 0 too
    return value
