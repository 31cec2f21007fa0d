"""Checks of runs that start from the weights of another run, their parent."""

from collections.abc import Mapping
from typing import Any

from sweeper.plan.facts import Facts
from sweeper.store.errors import invalid_value
from sweeper.store.identity import INTRODUCED_AS, leaves

# Keys that a tokenizer depends on; the last two choose the text that it is trained on.
_TOKENIZER = ("tokenizer", "vocabulary_size", "tokenizer_lines", "joined", "documents")


def _tokenizer_keys(config: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("data.digest", *(f"task.{name}" for name in _TOKENIZER))
    given = leaves({"task": config["task"], "data": config["data"]})
    return {key: given.get(key, INTRODUCED_AS.get(key)) for key in keys}


def check_tokenizer(config: Mapping[str, Any], parent: Mapping[str, Any]) -> None:
    """Raise UserError if a run would train a tokenizer that its parent's weights do not fit."""
    same_task = config["task"]["name"] == parent["task"]["name"]
    if same_task and config["task"].get("tokenizer") is None:
        _check_equal(_tokenizer_keys(config), _tokenizer_keys(parent), config["parent"])


def check_parent(config: Mapping[str, Any], parent: Mapping[str, Any], facts: Facts) -> None:
    """Raise UserError where the weights of a typed parent would mean something else in this run."""
    same_task = config["task"]["name"] == parent["task"]["name"]
    # An older record lacks keys that came later.
    introduced = {key: value for key, value in INTRODUCED_AS.items() if key.startswith("model.")}
    ours, theirs = (introduced | leaves({"model": one["model"]}) for one in (config, parent))
    free = ["model.dropout", "model.initializer_range"]
    if ours.get("model.attention.name") == "collaborative":  # it re-parametrises any attention
        free += [key for key in {**theirs, **ours} if key.startswith("model.attention.")]
    expected = {key: theirs.get(key) for key in {**theirs, **ours} if key not in free}
    ours |= _tokenizer_keys(config)
    if same_task:
        expected |= _tokenizer_keys(parent)
    elif "tokenizer" in config["task"]:
        expected["task.tokenizer"] = facts.text(parent)["prepared"]
    _check_equal(ours, expected, config["parent"])


def _check_equal(ours: Mapping[str, Any], expected: Mapping[str, Any], parent: str) -> None:
    for key, value in expected.items():
        if (own := ours.get(key)) != value:
            remedy = f"give it as {key}={'null' if value is None else value}"
            if key == "data.digest":
                remedy = "take the parent's text"
            raise invalid_value(key, own, f"that of parent={parent}, {value}", remedy)
