"""The table of an experiment: its cells, the words and units of its columns, its files."""

import csv
import hashlib
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sweeper.store import files
from sweeper.store.code import state_of
from sweeper.store.errors import UserError, invalid_value, sanitize
from sweeper.store.identity import can_change_results, leaves
from sweeper.store.numbers import plural
from sweeper.store.runs import Run, State, lineage

LABELS = {
    "params_total": "total parameters",
    "params_embedding": "embedding parameters",
    "params_non_embedding": "non-embedding parameters",
    "flops_per_token": "training FLOPs per token",
    "cache_bytes_per_token": "cache bytes per token",
    "width": "heads x head size",
    "model.layers": "layers",
    "model.embedding_size": "embedding size",
    "model.heads": "heads",
    "model.head_size": "head size",
    "model.feedforward_size": "feed-forward size",
    "model.attention.shared_size": "shared key/query size",
    "model.attention.key_value_heads": "key/value heads",
    "test/loss": "test loss (nats per subword)",
    "test/perplexity": "test perplexity per subword",
    "test/perplexity_per_word": "test perplexity per word",
    "test/bits_per_byte": "test bits per byte",
    "test/unigram_perplexity": "test perplexity per subword of a unigram model",
    "test/bigram_perplexity": "test perplexity per subword of a bigram model",
    "test/trigram_perplexity": "test perplexity per subword of a trigram model",
    "test/f1": "F1",
    "test/exact_match": "exact match",
    "test/accuracy": "accuracy (%)",
    "test/majority_accuracy": "accuracy of the majority class (%)",
    "test/majority_nsp_accuracy": "next-sentence accuracy of the majority class (%)",
    "test/bag_of_words_accuracy": "accuracy of a bag of words (%)",
    "test/context_error": "error of the context",
    "test/attention_rank": "rank of a head's logits",
    "test/attention_entropy": "entropy of attention (nats)",
    "validation/loss": "validation loss (nats per subword)",
    "optimizer.learning_rate": "learning rate",
    "task.sequence_length": "sequence length",
    "model.attention.value_size": "value size",
}

# By the last part of a metric's name: -1 if lower is better, 1 if higher is better.
DIRECTIONS = {
    "loss": -1,
    "perplexity": -1,
    "perplexity_per_word": -1,
    "bits_per_byte": -1,
    "accuracy": 1,
    "f1": 1,
    "exact_match": 1,
    "mlm_loss": -1,
    "mlm_accuracy": 1,
    "nsp_loss": -1,
    "nsp_accuracy": 1,
    "context_error": -1,
}

# By the same: metrics whose ratios are judged, because they are positive and grow by factors.
LOGARITHMIC = ("perplexity", "perplexity_per_word", "context_error")
# By the same: metrics that lie between 0 and 100 as they are shown.
PER_CENT = ("accuracy", "mlm_accuracy", "nsp_accuracy", "f1", "exact_match")
# From this ratio of the largest to the smallest value on, a scale is logarithmic.
LOGARITHMIC_FROM = 10.0
# A smaller error counts as this one: how much smaller only depends on the length of the fit.
RESOLUTION = {"context_error": 1e-4}


def label(column: str) -> str:
    """Return the words for a column, or its own name."""
    return LABELS.get(column, f"{column} (%)" if factor(column) > 1 else column)


def cell(column: str, value: Any) -> Any:
    """Return a cell of a column in the unit that the words for the column name."""
    known = number(value)
    return value if known is None else factor(column) * known


def direction(metric: str) -> int:
    """Return -1 if lower values of `metric` are better, 1 if higher ones are.

    Raises:
        UserError: the metric is unknown.
    """
    try:
        return DIRECTIONS[metric.rpartition("/")[2]]
    except KeyError:
        known = ", ".join(DIRECTIONS)
        remedy = "judge the experiment on another metric, or call it by one of these"
        raise invalid_value(
            "metric", metric, f"a name that ends in one of {known}", remedy
        ) from None


def factor(metric: str) -> int:
    """Return the factor between stored and shown values: an accuracy is stored as a fraction."""
    return 100 if metric.endswith("accuracy") else 1


def number(value: Any) -> float | None:
    """Return `value` as a finite number; None for anything else, such as booleans and words."""
    if type(value) is float or (
        isinstance(value, int | float) and not isinstance(value, bool)
    ):
        return float(value) if math.isfinite(value) else None
    return None


THEN = " then "  # between the devices or versions that trained one run, one after the other
FILES = ("record", "result", "attempts")
RESULT_KEYS = ("steps", "tokens_seen", "seconds", "tokens_per_second", "device")


def planned_cells(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cells that follow from a run's config."""
    task = {"task": config["task"]["name"]} if "task" in config else {}
    trainer = config.get("trainer", {})
    task["devices"] = trainer.get("devices", 1) * trainer.get("num_nodes", 1)
    return task | {
        f"model.{key}": value for key, value in leaves(config["model"]).items()
    }


def run_cells(run: Run, config: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the state and measurements of a run; without a record, the cells of `config`.

    FILES are no cells: they become `Table.records`.
    """
    status = run.status()
    cells: dict[str, Any] = {
        "run": run.id,
        "state": str(status.state),
        "reason": status.reason,
    }
    if status.state is State.NEW and not (run.path / "run.json").is_file():
        return cells | (planned_cells(config) if config else {})
    try:
        record = run.record()
        recorded = record.config
        cells |= planned_cells(recorded)
        beside = {"size": record.size, "names": record.names}
        cells["record"] = {"config": leaves(recorded), **beside}
        result = status.result or run.result()
        if result is not None:
            cells |= {field: result.get(field) for field in RESULT_KEYS} | {
                "result": result
            }
            text = files.canonical([recorded.get("data"), recorded.get("task")])
            cells["prepared"] = [text, result.get("data", {}).get("sha256")]
            attempts, device = (
                lineage(run, result["attempt"]),
                str(cells["device"] or ""),
            )
            cells["attempts"] = attempts
            before = [one.get("hardware", {}) for one in attempts[:-1]]
            devices = [
                found for one in before if (found := one.get("gpu") or one.get("cpu"))
            ]
            trained_with = {
                "device": [
                    *(one for one in devices if not device.endswith(one)),
                    device,
                ],
                "code": [one.get("code") for one in attempts],
                "torch": [one.get("versions", {}).get("torch") for one in attempts],
            }
            for column, words in trained_with.items():
                cells[column] = THEN.join(dict.fromkeys(filter(None, words)))
            cells["code_parts"] = [
                state for one in attempts if (state := state_of(one))
            ]
            cells |= {**result.get("validation", {}), **result["metrics"]}
    except UserError as problem:
        cells |= {"state": str(State.FAILED), "reason": str(problem), "damaged": True}
    except (KeyError, TypeError, AttributeError) as problem:
        reason = f"a file of the run lacks {sanitize(problem, 80)}"
        cells |= {"state": str(State.FAILED), "reason": reason, "damaged": True}
    return cells


Row = Mapping[str, Any]

_ABOUT = ("name", "experiment", "provenance", "settings")
# Tables show the experiment, its scale, seeds and text elsewhere.
_TYPED = re.compile(r"(?!(?:experiment|scale|seed)[=./]|data=|data\.root=)([\w+./@]+)=")
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_SPECIAL = re.compile(r'[,"\r\n]')
# Spreadsheets read these as formulas. An apostrophe marks a cell as text, so it is marked too.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")


@dataclass(frozen=True)
class MixedCode:
    """Runs of different code in a table.

    Attributes:
        groups: the number of runs by the revision that trained them; empty if the code is the same.
        files: the files that differ.
    """

    groups: Mapping[str, int]
    files: Sequence[str]


@dataclass(frozen=True)
class Table:
    """The rows of one experiment.

    Attributes:
        name: the experiment.
        experiment: its entry in the plan: title, metric, x, figure, claims, arms.
        provenance: the number, command and scale of the plan.
        settings: the config keys and values of a point, by its words in column `point`.
        columns: in order; every row has a value (or None) for each.
        rows: one per (arm, point, seed), in the order of the plan.
        records: for each run that has them, `record` (config by dotted key, size and names),
            `result` and `attempts`, the attempt.json of those that led to it.
        code: how the code of its runs differs; None if that is unknown.
    """

    name: str
    experiment: Mapping[str, Any]
    provenance: Mapping[str, Any]
    settings: Mapping[str, Mapping[str, Any]]
    columns: Sequence[str]
    rows: Sequence[Row]
    records: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    code: MixedCode | None = None

    @property
    def metric(self) -> str:
        """The column that the arms are compared on."""
        return str(self.experiment["metric"])

    @property
    def is_grid(self) -> bool:
        """True for a grid that was typed without an experiment of conf/."""
        return list(self.experiment["arms"]) == ["grid"]

    @property
    def title(self) -> str:
        """The title of figures and tables; for a grid without a yaml file, the keys that vary."""
        if not self.is_grid:
            return str(self.experiment.get("title") or self.name)
        varied = dict.fromkeys(
            key for values in self.settings.values() for key in values
        )
        over, by = label(self.metric), " and ".join(map(label, varied))
        return f"{over[:1].upper()}{over[1:]}{f' by {by}' if by else ''}"

    @property
    def fixed(self) -> list[str]:
        """The typed `key=value` that hold for all runs and can change them."""
        varied = {key for values in self.settings.values() for key in values}
        typed = map(_TYPED.match, map(str, self.provenance.get("command") or ()))
        return [
            found.string
            for found in typed
            if found and found[1] not in varied and can_change_results(found[1])
        ]

    @property
    def mixed_code(self) -> str:
        """The sentence on runs of different code; empty if the code is the same or unknown."""
        if self.code is None or not self.code.groups:
            return ""
        runs = ", ".join(
            f"{plural(n, 'run')} of {name}" for name, n in self.code.groups.items()
        )
        sentence = f"Mixed code: {runs}; they differ in {', '.join(self.code.files)}."
        accepted = "Accepted by hydra.sweeper.accept_mixed_code=true."
        return f"{sentence} {accepted}" if self.accepts_mixed_code else sentence

    @property
    def accepts_mixed_code(self) -> bool:
        """True if the plan lets runs of different code decide a claim."""
        return bool(self.provenance.get("accept_mixed_code"))

    def label(self, arm: str) -> str:
        """Return the words for an arm."""
        return str(self.experiment["arms"].get(arm, {}).get("label") or arm)


def stem(name: str) -> str:
    """Return the file name, without suffix, of the tables and figures of an experiment."""
    if _PLAIN.fullmatch(name):
        return name
    letters = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:32]
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{letters or 'experiment'}-{digest[:12]}"


def exported(outputs: Path, table: Table, suffix: str = ".csv") -> Path:
    """Return the path of a table's file."""
    return outputs / "tables" / f"{stem(table.name)}{suffix}"


def files_made_of(outputs: Path, name: str) -> list[Path]:
    """Return the files of an experiment's tables and figures, hidden ones included."""
    names = (
        f"tables/{stem(name)}.*",
        f"figures/{stem(name)}.*",
        f"figures/.{stem(name)}.*",
    )
    return [path for pattern in names for path in sorted(outputs.glob(pattern))]


def publish_made(path: Path, data: bytes | str) -> None:
    """Write a file made from records; everyone who may enter the outputs folder can read it."""
    files.make_directory(path.parent, 0o755)
    with files.new_file(path, mode=0o644) as descriptor:
        files.write_all(descriptor, data.encode() if isinstance(data, str) else data)


def write_table(outputs: Path, table: Table) -> Path:
    """Write the rows of a table (.csv) and its description (.json); return the path of the .csv."""
    path = exported(outputs, table)
    about = {key: getattr(table, key) for key in _ABOUT}
    if table.mixed_code:
        about["mixed_code"] = table.mixed_code
        about["code"] = asdict(table.code) if table.code else None
    publish_made(
        exported(outputs, table, ".json"),
        files.as_json({"format": files.FORMAT, **about}),
    )
    publish_made(path, csv_text(table))
    return path


def read_table(path: Path) -> Table:
    """Return the table that `write_table` wrote as a .csv, with its description beside it.

    Raises:
        UserError: it is no such table, or an older one that does not say which runs share a parent.
    """
    about = path.with_suffix(".json")
    description = files.read_object(about)
    if description is None or not {"name", "experiment"} <= description.keys():
        raise UserError(f"{about} describes no experiment; collect the table again.")
    try:
        with path.open(newline="", encoding="utf-8") as file:
            columns, *lines = csv.reader(file)
    except (OSError, ValueError) as error:
        raise UserError(f"{path} cannot be read ({error}); collect it again.") from None
    experiment = description["experiment"]
    arms = experiment.get("arms", {}).values()
    inherits = experiment.get("finetune") or any(arm.get("parent") for arm in arms)
    if inherits and "parent" not in columns:
        raise UserError(
            f"{path} lacks the column parent, which says what its runs start from; "
            "collect it again."
        )
    mixed = description.get("code")
    return Table(
        description["name"],
        experiment,
        description.get("provenance") or {},
        description.get("settings") or {},
        columns,
        [dict(zip(columns, map(_read_cell, line), strict=True)) for line in lines],
        code=MixedCode(mixed["groups"], mixed["files"]) if mixed else None,
    )


def _read_cell(text: str) -> Any:
    """Return a cell of a .csv as it was in memory."""
    words = {"": None, "true": True, "false": False}
    if text in words:
        return words[text]
    try:
        found = json.loads(text)
    except ValueError:
        return text.removeprefix("'")  # before a formula
    return found if isinstance(found, int | float) else text


def csv_text(table: Table) -> str:
    """Return the rows of a table as the text of its .csv."""
    lines = [
        table.columns,
        *([row.get(key) for key in table.columns] for row in table.rows),
    ]
    return "".join(map(csv_line, lines))


def csv_line(cells: Iterable[Any]) -> str:
    """Return values as a line of a .csv, with formulas marked as text."""

    def word(value: Any) -> str:
        if value is None:
            return ""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int | float):
            return repr(value)
        text = str(value)
        if (
            not text.isascii()
        ):  # JSON can hold half of a surrogate pair, which UTF-8 cannot
            text = text.encode("utf-8", "backslashreplace").decode()
        text = f"'{text}" if text.startswith(_FORMULA) else text
        # csv.writer leaves a lone carriage return bare, which its own reader takes for a new line.
        return '"' + text.replace('"', '""') + '"' if _SPECIAL.search(text) else text

    return ",".join(map(word, cells)) + "\n"
