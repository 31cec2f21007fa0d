"""What the columns of a table mean to a reader: their words, their numbers, which way is better."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeper.store.code import state_of
from sweeper.store.errors import UserError, invalid_value, sanitize
from sweeper.store.files import FORMAT, as_json, make_directory, new_file, present, write_all
from sweeper.store.identity import can_change_results, leaves
from sweeper.store.runs import Run, State, lineage

LABELS = {
    "params_total": "total parameters",
    "params_embedding": "embedding parameters",
    "params_non_embedding": "non-embedding parameters",
    "flops_per_token": "training FLOPs per token",
    "width": "key/value width",
    "model.layers": "layers",
    "model.embedding_size": "embedding size",
    "model.heads": "heads",
    "model.head_size": "head size",
    "model.feedforward_size": "feed-forward size",
    "model.attention.shared_size": "shared key/query size",
    "test/loss": "test loss (nats per subword)",
    "test/perplexity": "test perplexity per subword",
    "test/perplexity_per_word": "test perplexity per word",
    "test/f1": "F1",
    "test/exact_match": "exact match",
    "test/accuracy": "accuracy (%)",
    "test/majority_accuracy": "accuracy of the majority class (%)",
    "test/bag_of_words_accuracy": "accuracy of a bag of words (%)",
    "test/context_error": "error of the context",
    "test/relative_error": "relative squared error",
    "test/attention_rank": "rank of a head's logits",
    "test/attention_entropy": "entropy of attention (nats)",
    "validation/loss": "validation loss (nats per subword)",
    "optimizer.learning_rate": "learning rate",
    "task.sequence_length": "sequence length",
    "model.attention.value_size": "value size",
}

# By the last part of a metric's name: -1 if lower is better, 1 if higher is.
DIRECTIONS = {
    "loss": -1,
    "perplexity": -1,
    "perplexity_per_word": -1,
    "accuracy": 1,
    "f1": 1,
    "exact_match": 1,
    "context_error": -1,
    "relative_error": -1,
}

# By the same: metrics whose ratios are judged, being positive and grown by factors.
LOGARITHMIC = ("perplexity", "perplexity_per_word", "context_error", "relative_error")
# From this ratio of the largest to the smallest value on, a scale is logarithmic, and says so.
LOGARITHMIC_FROM = 10.0
# An error below it counts as none: how far below says only how long a fit went on.
RESOLUTION = {"context_error": 1e-4}


def label(column: str) -> str:
    """The words for a column; its own name where it has none."""
    return LABELS.get(column, column)


def cell(column: str, value: Any) -> Any:
    """What a cell of a column is shown as: in the unit that the words for the column name."""
    known = number(value)
    return value if known is None or column not in LABELS else factor(column) * known


def direction(metric: str) -> int:
    """-1 if lower values of `metric` are better, 1 if higher ones are.

    Raises:
        UserError: nothing is known of this metric.
    """
    try:
        return DIRECTIONS[metric.rpartition("/")[2]]
    except KeyError:
        known = ", ".join(DIRECTIONS)
        remedy = "judge the experiment on another metric or add it to DIRECTIONS"
        raise invalid_value(
            "metric", metric, f"a name that ends in one of {known}", remedy
        ) from None


def factor(metric: str) -> int:
    """What `metric` is multiplied by to be shown: an accuracy is stored as a fraction."""
    return 100 if metric.endswith("accuracy") else 1


def number(value: Any) -> float | None:
    """`value` as a finite number; None for anything else, such as booleans and words."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


THEN = " then "  # between what one run was trained with, one after the other
_RESULT = ("steps", "tokens_seen", "seconds", "tokens_per_second", "device")


def _made_with(attempts: Sequence[Mapping[str, Any]], device: str) -> dict[str, Any]:
    """What trained a run, the last time on `device`: all of it, where it was continued with or on
    something else."""
    before = [one.get("hardware", {}) for one in attempts[:-1]]
    devices = [found for one in before if (found := one.get("gpu") or one.get("cpu"))]
    told = {
        "device": [*(one for one in devices if not device.endswith(one)), device],
        "code": [one.get("code") for one in attempts],
        "torch": [one.get("versions", {}).get("torch") for one in attempts],
    }
    return {
        **{column: THEN.join(dict.fromkeys(filter(None, words))) for column, words in told.items()},
        "code_parts": [state for one in attempts if (state := state_of(one))],
    }


def planned_cells(config: Mapping[str, Any]) -> dict[str, Any]:
    task = {"task": config["task"]["name"]} if "task" in config else {}
    return task | {f"model.{key}": value for key, value in leaves(config["model"])}


def run_cells(run: Run, config: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """How a run stands and what it measured; of one without a record what `config` plans."""
    status = run.status()
    cells: dict[str, Any] = {"run": run.id, "state": str(status.state), "reason": status.reason}
    if status.state is State.NEW and not present(run.path / "run.json"):
        return cells | (planned_cells(config) if config else {})
    try:
        record, result = run.record(), run.result()
        cells |= planned_cells(record["config"])
        if result is not None:
            cells |= {field: result.get(field) for field in _RESULT}
            cells |= _made_with(lineage(run, result["attempt"]), str(cells["device"] or ""))
            cells |= {**result.get("validation", {}), **result["metrics"]}
    except UserError as problem:
        cells |= _unreadable(str(problem))
    except (KeyError, TypeError, AttributeError) as problem:
        cells |= _unreadable(f"a file of the run lacks {sanitize(problem, 80)}")
    return cells


def _unreadable(reason: str) -> dict[str, Any]:
    return {"state": str(State.FAILED), "reason": reason, "damaged": True}


Row = Mapping[str, Any]

_ABOUT = ("name", "experiment", "provenance", "settings")
# What names an experiment, its scale, seeds and text, is told elsewhere.
_TYPED = re.compile(r"(?!(?:experiment|scale|seed)[=./]|data=|data\.root=)([\w+./@]+)=")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_SPECIAL = re.compile(r'[,"\r\n]')
# What a spreadsheet takes for a formula; the apostrophe marks a cell as text, so it is marked too.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")


@dataclass(frozen=True)
class Table:
    """The rows of one experiment.

    Attributes:
        name: the experiment.
        experiment: what the plan says of it: title, metric, x, figure, claims, arms.
        provenance: the number, command and scale of the plan.
        settings: by the words in column `point`, the config keys and values they stand for.
        columns: in order; every row has a value (or None) for each.
        rows: one per (arm, point, seed), in the order of the plan.
    """

    name: str
    experiment: Mapping[str, Any]
    provenance: Mapping[str, Any]
    settings: Mapping[str, Mapping[str, Any]]
    columns: Sequence[str]
    rows: Sequence[Row]

    @property
    def metric(self) -> str:
        """The column that the arms are compared on."""
        return str(self.experiment["metric"])

    @property
    def title(self) -> str:
        """What it is called above figures and tables; of a grid typed by hand, what it varies."""
        if list(self.experiment["arms"]) != ["grid"]:
            return str(self.experiment.get("title") or self.name)
        varied = dict.fromkeys(key for values in self.settings.values() for key in values)
        over, by = label(self.metric), " and ".join(map(label, varied))
        return f"{over[:1].upper()}{over[1:]}{f' by {by}' if by else ''}"

    @property
    def fixed(self) -> list[str]:
        """What was typed for all of its runs alike, and can change them: each a `key=value`."""
        varied = {key for values in self.settings.values() for key in values}
        typed = map(_TYPED.match, map(str, self.provenance.get("command") or ()))
        return [
            found.string
            for found in typed
            if found and found[1] not in varied and can_change_results(found[1])
        ]

    def label(self, arm: str) -> str:
        return str(self.experiment["arms"].get(arm, {}).get("label") or arm)


def stem(name: str) -> str:
    """The file name, less its suffix, of what is made of an experiment; never a path."""
    if _PLAIN.fullmatch(name):
        return name
    letters = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:32]
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{letters or 'experiment'}-{digest[:12]}"


def exported(outputs: Path, table: Table, suffix: str = ".csv") -> Path:
    return outputs / "tables" / f"{stem(table.name)}{suffix}"


def files_made_of(outputs: Path, name: str) -> list[Path]:
    """The tables and figures that there are of an experiment."""
    folders = (outputs / "tables", outputs / "figures")
    return [path for folder in folders for path in sorted(folder.glob(f"{stem(name)}.*"))]


def set_aside(outputs: Path, name: str, called: str) -> None:
    """Rename the files made of an experiment, which is now called otherwise."""
    for path in files_made_of(outputs, name):
        path.rename(path.with_name(stem(called) + path.name.removeprefix(stem(name))))


def publish_made(path: Path, data: bytes | str) -> None:
    """`publish` of what is made from records, for anyone who may enter the folder above its own."""
    make_directory(path.parent, 0o755)
    with new_file(path, mode=0o644) as descriptor:
        write_all(descriptor, data.encode() if isinstance(data, str) else data)


def write_table(outputs: Path, table: Table) -> Path:
    """Writes the rows of a table and what they are of; returns the path of the .csv."""
    path = exported(outputs, table)
    about = {key: getattr(table, key) for key in _ABOUT}
    publish_made(exported(outputs, table, ".json"), as_json({"format": FORMAT, **about}))
    lines = [table.columns, *([row.get(key) for key in table.columns] for row in table.rows)]
    publish_made(path, "".join(map(csv_line, lines)))
    return path


def csv_line(cells: Iterable[Any]) -> str:
    """Values as a line of a .csv, with no formula among them."""
    return ",".join(map(_cell, cells)) + "\n"


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    # JSON can hold half of a surrogate pair, which no file of text can.
    text = str(value).encode("utf-8", "backslashreplace").decode()
    text = f"'{text}" if text.startswith(_FORMULA) else text
    # csv.writer leaves a lone carriage return bare, which its own reader takes for a new line.
    return '"' + text.replace('"', '""') + '"' if _SPECIAL.search(text) else text
