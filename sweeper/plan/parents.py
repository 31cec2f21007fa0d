"""Find the parent of a run, and check that the run can start from the parent's weights."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sweeper.plan.facts import Facts
from sweeper.plan.overrides import absolute_path
from sweeper.plan.plan import Plan
from sweeper.size_server import SizeServer
from sweeper.store.errors import UserError, invalid_value
from sweeper.store.identity import INTRODUCED_AS, leaves
from sweeper.store.records import Record
from sweeper.store.runs import RunStore, State

# A tokenizer depends on these keys. `joined` and `documents` choose the text that trains it.
_TOKENIZER = ("tokenizer", "vocabulary_size", "tokenizer_lines", "joined", "documents")


@dataclass
class Parents:
    """The finished runs that the config key `parent` names.

    The value of the key is the id of a run, or a folder that Hugging Face's `transformers` saved.
    """

    store: RunStore
    process: SizeServer
    _known: dict[str, Record] = field(default_factory=dict)

    def record(self, parent: str) -> Record:
        """Return the record of a parent. If `parent` is a folder, import it as a run first.

        Raise UserError if there is no such finished run, or if the folder cannot be imported.
        """
        folder = absolute_path("parent", parent)
        if parent in self._known:
            return self._known[parent]
        id, outputs = parent, self.store.outputs
        if (folder / "config.json").is_file():
            about = {"folder": str(folder), "outputs": str(outputs)}
            [answer] = self.process.ask([{"op": "import", **about}])
            if "error" in answer:
                raise UserError(answer["error"])
            id = answer["run"]
        run = None if "/" in id else self.store.run(id)
        if run is None or run.status().state is not State.DONE:
            expected = (
                f"the id of a finished run in {outputs}, or a folder with a config.json"
            )
            remedy = "train that run first, or correct the id"
            raise invalid_value("parent", parent, expected, remedy)
        return self._known.setdefault(parent, run.record())


def check_start(run: Record, plan: Plan, facts: Facts) -> None:
    """Raise UserError if a run has a parent and cannot start from it.

    The parent may be a run of the same plan, or a finished run that `parent=ID` names.
    """
    if run.parent is None:
        return
    if run.parent in plan.runs:
        parent = plan.runs[run.parent].config
        _check_same_tokenizer(run.config, parent)
    else:
        parent = RunStore(plan.outputs).run(run.parent).record().config
        _check_inherited_tokenizer(run.config, parent, facts)
    _check_model(run.config, parent)


def _check_model(config: Mapping[str, Any], parent: Mapping[str, Any]) -> None:
    """Raise UserError if a run has another model than its parent.

    `model.dropout` and `model.initializer_range` may differ. A model with collaborative attention
    may start from any attention variant, since it can re-parametrise the weights.
    """
    # Old records lack newer keys, so add the values that their runs used implicitly.
    introduced = {
        key: value for key, value in INTRODUCED_AS.items() if key.startswith("model.")
    }
    ours, theirs = (
        introduced | leaves({"model": one["model"]}) for one in (config, parent)
    )
    free = ["model.dropout", "model.initializer_range"]
    if ours.get("model.attention.name") == "collaborative":
        free += [
            key for key in {**theirs, **ours} if key.startswith("model.attention.")
        ]
    expected = {key: theirs.get(key) for key in {**theirs, **ours} if key not in free}
    _check_equal(ours, expected, config["parent"])


def _check_same_tokenizer(config: Mapping[str, Any], parent: Mapping[str, Any]) -> None:
    """Raise UserError if a run and its parent in the same plan need different tokenizers."""
    same_task = config["task"]["name"] == parent["task"]["name"]
    if same_task and config["task"].get("tokenizer") is None:
        _check_equal(_tokenizer_keys(config), _tokenizer_keys(parent), config["parent"])


def _check_inherited_tokenizer(
    config: Mapping[str, Any], parent: Mapping[str, Any], facts: Facts
) -> None:
    """Raise UserError if a run has another tokenizer than its finished parent."""
    same_task = config["task"]["name"] == parent["task"]["name"]
    if parent["task"].get("tokenizer") or not same_task:
        if "tokenizer" not in config["task"]:
            wanted = "a task that can use the parent's tokenizer"
            remedy = "choose task=mnli or task=squad"
            raise invalid_value("task", config["task"]["name"], wanted, remedy)
        expected = {
            "task.tokenizer": tokenizer_of(parent, facts),
            "task.vocabulary_size": parent["task"].get("vocabulary_size"),
        }
    else:
        expected = _tokenizer_keys(parent)
    _check_equal(_tokenizer_keys(config), expected, config["parent"])


def tokenizer_of(config: Mapping[str, Any], facts: Facts) -> str:
    """Return the name of the prepared data that holds the tokenizer of a run."""
    named: str | None = config["task"].get("tokenizer")
    return named or str(facts.text(config)["prepared"])


def _tokenizer_keys(config: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("data.digest", *(f"task.{name}" for name in _TOKENIZER))
    given = leaves({"task": config["task"], "data": config["data"]})
    return {key: given.get(key, INTRODUCED_AS.get(key)) for key in keys}


def _check_equal(
    ours: Mapping[str, Any], expected: Mapping[str, Any], parent: str
) -> None:
    for key, value in expected.items():
        if (own := ours.get(key)) != value:
            wanted = "null" if value is None else value
            remedy = f"set {key}={wanted}"
            if key == "data.digest":
                remedy = "choose the text that the parent was trained on"
            raise invalid_value(
                key, own, f"{wanted}, as in the parent {parent}", remedy
            )
