"""Find the parent of a run, and check that the run can start from the weights of the parent."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sweeper.plan.facts import Facts
from sweeper.plan.overrides import absolute_path
from sweeper.plan.plan import Plan
from sweeper.size_server import SizeServer
from sweeper.store.errors import UserError, invalid_value
from sweeper.store.identity import DRAWN, INTRODUCED_AS, leaves
from sweeper.store.records import Record
from sweeper.store.runs import RunStore, State

# The keys that determine a tokenizer. `joined` and `documents` change the text that trains it.
_TOKENIZER = (
    "data.digest",
    "task.tokenizer",
    "task.vocabulary_size",
    "task.tokenizer_lines",
    "task.joined",
    "task.documents",
)


@dataclass
class Parents:
    """A lookup of the finished runs that the config key `parent` names.

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
    """Raise UserError if a run has a parent and cannot start from the weights of the parent.

    The parent may be a run of the same plan, or a finished run that `parent=ID` names. Both runs
    need the same tokenizer and the same values of `model.*`, except for `model.dropout` and
    `model.initializer_range`. A model with collaborative attention may start from a model with any
    attention variant, since collaborative attention can re-parametrise the weights of the variant.
    """
    if run.parent is None:
        return
    known = plan.runs.get(run.parent) or RunStore(plan.outputs).run(run.parent).record()
    # Records of earlier versions lack newer keys. Add the values that their runs used implicitly.
    ours, theirs = (INTRODUCED_AS | leaves(one.config) for one in (run, known))
    expected = {key: theirs.get(key) for key in _TOKENIZER}
    other_task = ours["task.name"] != theirs["task.name"]
    has_text = theirs.get("data.digest") != DRAWN
    if theirs.get("task.tokenizer") or (other_task and has_text):
        if "task.tokenizer" not in ours:
            wanted = "a task that can use the parent's tokenizer"
            remedy = "choose task=mnli or task=squad"
            raise invalid_value("task", ours["task.name"], wanted, remedy)
        expected = {
            "task.tokenizer": tokenizer_of(known.config, facts),
            "task.vocabulary_size": theirs.get("task.vocabulary_size"),
        }

    free = ["model.dropout", "model.initializer_range"]
    if ours.get("model.attention.name") == "collaborative":
        free += [
            key for key in {**theirs, **ours} if key.startswith("model.attention.")
        ]
    for key in {**theirs, **ours}:
        if key.startswith("model.") and key not in free:
            expected[key] = theirs.get(key)
    for key, value in expected.items():
        if (own := ours.get(key)) != value:
            wanted = "null" if value is None else value
            remedy = f"set {key}={wanted}"
            if key == "data.digest":
                remedy = "choose the text that the parent was trained on"
            wanted = f"{wanted}, as in the parent {run.parent}"
            raise invalid_value(key, own, wanted, remedy)


def tokenizer_of(config: Mapping[str, Any], facts: Facts) -> str:
    """Return the name of the prepared data that has the tokenizer of a run with this config."""
    named: str | None = config["task"].get("tokenizer")
    return named or str(facts.text(config)["prepared"])
