"""The table of an experiment: the schema of its columns, its rows, and its files on disk."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sweeper.store import files
from sweeper.store.errors import UserError, as_typed, invalid_value
from sweeper.store.identity import can_change_results, identity, leaves
from sweeper.store.numbers import plural
from sweeper.store.plans import stem
from sweeper.store.records import Result


@dataclass(frozen=True)
class Column:
    """The schema of a column.

    Attributes:
        words: the label; empty if the column's name is the label.
        unit: the unit after the label.
        better: -1 if lower values are better, 1 if higher ones are, 0 if claims cannot judge the
            column.
        most: the upper bound, in `unit`, of a metric whose lower bound is 0; None for others.
        ratios: whether claims judge the ratio of two values instead of their difference.
        resolution: the value to which claims raise smaller values before they take ratios.
        type: float for a column of numbers, str for text. Any cell may also be None.
    """

    words: str = ""
    unit: str = ""
    better: int = 0
    most: float | None = None
    ratios: bool = False
    resolution: float = 0.0
    type: type = float


_TEXT = Column(type=str)

NAMES = {
    "experiment": _TEXT,
    "arm": _TEXT,
    "point": _TEXT,  # in words, for example "heads=8 head_size=32"
    "task": _TEXT,
    "seed": Column(),  # seeds the initial weights, the order of the data and dropout
}

# The config keys that have a label. A table has a column for each key of the model and for each key
# that the plan varies. A cell of model.head_size is never empty. If heads differ in size, it has a
# list.
KEYS = {
    "model.layers": Column("layers"),
    "model.embedding_size": Column("embedding size"),
    "model.heads": Column("heads"),
    "model.head_size": Column("head size"),
    "model.feedforward_size": Column("feed-forward size"),
    "model.attention.shared_size": Column("shared key/query size"),
    "model.attention.key_value_heads": Column("key/value heads"),
    "model.attention.value_size": Column("value size"),
    "optimizer.learning_rate": Column("learning rate"),
    "task.sequence_length": Column("sequence length"),
    "trials": _TEXT,  # the ids of the runs that tuned the point
    # For an alternative (`Point.alternatives` in results/points.py), the name of the chosen point.
    "alternative_to": _TEXT,
}

# Sizes come from the plan, so unfinished runs have them too.
SIZES = {
    # As in papers, a fine-tuned model has the parameter counts of its pre-trained model.
    "params_total": Column("total parameters"),
    "params_embedding": Column("embedding parameters"),
    "params_non_embedding": Column("non-embedding parameters"),
    "params_attention": Column(),
    # The share of the attention parameters that re-parametrisation removed.
    "params_attention_saved": Column(),
    # 3 times the FLOPs of the forward pass. A pre-training can have a second phase with longer
    # texts. The FLOPs are those of the first phase, so `training_flops` of such a run is too low.
    "flops_per_token": Column("training FLOPs per token"),
    # The size of the keys and values that a decoder caches in all layers, at two bytes per number.
    "cache_bytes_per_token": Column("cache bytes per token"),
    "width": Column("heads x head size"),  # the mean over layers
    "matched_to": _TEXT,  # the point that this point is matched to, in words
    "match_count": _TEXT,  # the column that should be equal for both points
    "match_error": Column(),  # achieved / target - 1 in that column
    "steps": Column(),
    # This is an upper bound if each batch is padded only to its own longest row.
    "tokens_seen": Column(),
    "training_flops": Column("training FLOPs"),
}

# Metrics by their name without the split: "loss" describes test/loss and validation/loss. The
# labels are those of the test split.
METRICS = {
    "loss": Column("test loss", "nats per subword", -1),
    "perplexity": Column("test perplexity per subword", "", -1, ratios=True),
    "perplexity_per_word": Column("test perplexity per word", "", -1, ratios=True),
    "bits_per_byte": Column("test bits per byte", "", -1),
    "accuracy": Column("accuracy", "%", 1, 100),
    "f1": Column("F1", "", 1, 100),
    "exact_match": Column("exact match", "", 1, 100),
    "mlm_loss": Column("", "", -1),
    "mlm_accuracy": Column("", "%", 1, 100),
    "nsp_loss": Column("", "", -1),
    "nsp_accuracy": Column("", "%", 1, 100),
    # An error below the resolution says only how long the fit ran.
    "context_error": Column(
        "error of the context", "", -1, ratios=True, resolution=1e-4
    ),
    "attention_rank": Column("rank of a head's logits"),  # the mean over heads
    "attention_entropy": Column("entropy of attention", "nats"),
    "unigram_perplexity": Column("test perplexity per subword of a unigram model"),
    "bigram_perplexity": Column("test perplexity per subword of a bigram model"),
    "trigram_perplexity": Column("test perplexity per subword of a trigram model"),
    "majority_accuracy": Column("accuracy of the majority class", "%"),
    "majority_nsp_accuracy": Column(
        "next-sentence accuracy of the majority class", "%"
    ),
    "bag_of_words_accuracy": Column("accuracy of a bag of words", "%"),
}

RUN = {
    "seconds": Column("training time", "s"),
    # The part of `seconds` in which the run waited for a processor; only for runs on CPUs.
    "waited_seconds": Column("time waiting for a processor", "s"),
    "tokens_per_second": Column(),
    "device": _TEXT,
    "code": _TEXT,  # the version of the program
    "torch": _TEXT,
    "state": _TEXT,
    "reason": _TEXT,
    "run": _TEXT,  # the run id; the folder is outputs/runs/<run>
    "parent": _TEXT,  # the run whose weights this run starts from
}

COLUMNS: dict[str, Column] = {**NAMES, **KEYS, **SIZES, **METRICS, **RUN}
"""The schema of every known column, in the order of columns in a table's files."""

# A scale is logarithmic if the largest value is at least this many times the smallest.
LOGARITHMIC_FROM = 10.0
THEN = " then "  # joins the devices or versions that trained a run one after the other


def schema_of(name: str) -> Column:
    """Return the schema of a column. A metric has the same schema for every split."""
    default = Column(unit="%" if name.endswith("accuracy") else "")
    return COLUMNS.get(name) or METRICS.get(name.rpartition("/")[2], default)


def label(name: str) -> str:
    """Return the label of a column with its unit, such as "test loss (nats per subword)"."""
    column = schema_of(name)
    split = name.rpartition("/")[0]
    words = column.words or name
    if split not in ("", "test") and column.words:
        words = f"{split} {words.removeprefix('test ')}"
    return f"{words} ({column.unit})" if column.unit else words


def factor(metric: str) -> int:
    """Return the factor that converts stored values to the label's unit: 100 for %, otherwise 1."""
    return 100 if schema_of(metric).unit == "%" else 1


def cell(name: str, value: Any) -> Any:
    """Return a stored value, converted to the unit of the column's label."""
    known = number(value)
    return value if known is None else factor(name) * known


def training_flops(row: Row) -> float | None:
    """Return the training FLOPs of a run; None if its tokens or FLOPs per token are unknown."""
    of_token, tokens = (number(row.get(k)) for k in ("flops_per_token", "tokens_seen"))
    return of_token * tokens if of_token and tokens else None


def direction(metric: str) -> int:
    """Return -1 if lower values of `metric` are better, 1 if higher ones are.

    Raises:
        UserError: the metric is unknown.
    """
    better = schema_of(metric).better
    if not better:
        known = ", ".join(name for name, column in METRICS.items() if column.better)
        expected = f"a name that ends in one of {known}"
        remedy = "set another metric, or rename this one so that it ends in one of these words"
        raise invalid_value("metric", metric, expected, remedy)
    return better


def number(value: Any) -> float | None:
    """Return `value` as a float; None if it is not a finite number. Booleans are not numbers."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if math.isfinite(value) else None
    return None


Data = Mapping[str, Any]
"""The content of a JSON object."""

Row = Data
"""The cells of a run by column: None, a boolean, a number, or a non-empty string.

A row in memory has more keys, which are not columns (see collect.py)."""

# Matches the beginning of an override, `key=`, except overrides of the experiment, the scale, the
# seed and the dataset, which tables show elsewhere.
_OVERRIDE = re.compile(
    r"(?!(?:experiment|scale|seed)[=./]|data=|data\.root=)([\w+./@]+)="
)
# Spreadsheets read cells that begin with these as formulas, unless an apostrophe is in front. Cells
# that already begin with an apostrophe get another one, because reading a table removes one.
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "'")


@dataclass(frozen=True)
class MixedCode:
    """The differences in code between the runs of a table.

    Attributes:
        groups: the number of runs that each version of the code trained; empty if there is no
            difference.
        files: the files that differ.
    """

    groups: Mapping[str, int]
    files: Sequence[str]


STEADY = ("constant", "rsqrt")
"""Learning-rate schedules that do not decay to zero.

With these schedules, each validation shows the loss that a run would have if it ended there. With
others, it does not."""


@dataclass(frozen=True)
class RunFiles:
    """The content of the files of a run. An attribute is empty if the run lacks the file.

    Attributes:
        config: the config of the run, by dotted key.
        size: the model's numbers of parameters and other sizes.
        names: the experiment, arm and label under which the run was trained.
        result: the result; None if the run is not done.
        attempts: the content of attempt.json for each attempt that led to the result, oldest first.
        curve: the step and the loss of each validation. It is only read if the learning-rate
            schedule is in STEADY, because it is only used for effective speedups.
        sections: the config of the run, nested.
        cells: the cells that are equal in all rows of the run.
    """

    config: Data = field(default_factory=dict)
    size: Data = field(default_factory=dict)
    names: Data = field(default_factory=dict)
    result: Result | None = None
    attempts: Sequence[Data] = ()
    curve: Sequence[tuple[float, float]] = ()
    sections: Data = field(default_factory=dict)
    cells: Data = field(default_factory=dict)

    @property
    def settings(self) -> Data:
        """The config values that can change results, by dotted key, without seed and parent."""
        kept = leaves(identity(self.sections))
        return {key: kept[key] for key in kept.keys() - {"seed", "parent"}}


@dataclass(frozen=True)
class Table:
    """The rows of one experiment.

    Attributes:
        name: the name of the experiment.
        experiment: the experiment's entry in the plan: title, metric, x, figure, claims, arms.
        provenance: the number, command and scale of the plan, and other facts about it, such as
            `rounds` and `asked_late` (collect.py).
        settings: the varied config keys of each point with their values, by the name in the column
            `point`.
        columns: the names of the columns, in order.
        rows: one per (arm, point, seed), in the order of the plan.
        files: the content of each run's files, by run id; {} if the table was read from a .csv.
        code: the differences in code between the runs; None if unknown.
    """

    name: str
    experiment: Data
    provenance: Data
    settings: Mapping[str, Data]
    columns: Sequence[str]
    rows: Sequence[Row]
    files: Mapping[str, RunFiles] = field(default_factory=dict)
    code: MixedCode | None = None

    @property
    def cells(self) -> list[list[Any]]:
        """The cells of each row, in the order of the columns."""
        return [[row.get(key) for key in self.columns] for row in self.rows]

    @property
    def metric(self) -> str:
        """The column by which the arms are compared."""
        return str(self.experiment["metric"])

    @property
    def is_grid(self) -> bool:
        """True if the table is of a grid from the command line, not of an experiment."""
        return list(self.experiment["arms"]) == ["grid"]

    @property
    def varied(self) -> list[str]:
        """The config keys that differ between points."""
        return list(dict.fromkeys(chain(*self.settings.values())))

    @property
    def title(self) -> str:
        """The title of figures and tables. For a grid, it is for example "Test loss by heads"."""
        if not self.is_grid:
            return str(self.experiment.get("title") or self.name)
        words = label(self.metric)
        title = words[:1].upper() + words[1:]
        if self.varied:
            title += f" by {' and '.join(map(label, self.varied))}"
        return title

    @property
    def fixed(self) -> list[str]:
        """The overrides on the command line that set one value for all runs and can change results.

        Overrides of the experiment, the scale, the seed and the dataset are left out.
        """
        words = map(str, self.provenance.get("command") or ())
        return [
            word
            for word in words
            if (found := _OVERRIDE.match(word))
            and found[1] not in self.varied
            and can_change_results(found[1])
        ]

    @property
    def mixed_code(self) -> str:
        """The sentence on runs of different code, or "" if the code is the same or unknown."""
        if self.code is None or not self.code.groups:
            return ""
        groups = self.code.groups.items()
        runs = ", ".join(f"{plural(count, 'run')} of {name}" for name, count in groups)
        sentence = f"Mixed code: {runs}; they differ in {', '.join(self.code.files)}."
        if self.accepts_mixed_code:
            sentence += " Accepted by hydra.sweeper.accept_mixed_code=true."
        return sentence

    @property
    def accepts_mixed_code(self) -> bool:
        """True if the user allows runs of different code to decide claims."""
        return bool(self.provenance.get("accept_mixed_code"))

    def label(self, arm: str) -> str:
        """Return the label of an arm."""
        return str(self.experiment["arms"].get(arm, {}).get("label") or arm)


def exported(outputs: Path, table: Table, suffix: str = ".csv") -> Path:
    """Return the path of a table's file with this suffix."""
    return outputs / "tables" / f"{stem(table.name)}{suffix}"


def files_made_of(outputs: Path, name: str) -> list[Path]:
    """Return the paths of an experiment's tables and figures, including hidden files."""
    found = []
    for place in ("tables/", "figures/", "figures/."):
        found += sorted(outputs.glob(f"{place}{stem(name)}.*"))
    return found


def publish_made(path: Path, data: bytes | str) -> None:
    """Write a file atomically. All users with access to the outputs folder can read it."""
    files.make_directory(path.parent, 0o755)
    with files.new_file(path, mode=0o644) as descriptor:
        files.write_all(descriptor, data.encode() if isinstance(data, str) else data)


def write_table(outputs: Path, table: Table) -> Path:
    """Write a table's rows (.csv) and its description (.json); return the path of the .csv."""
    about = {
        "format": files.FORMAT,
        "name": table.name,
        "experiment": table.experiment,
        "provenance": table.provenance,
        "settings": table.settings,
    }
    if table.code and table.mixed_code:
        about |= {"mixed_code": table.mixed_code, "code": asdict(table.code)}
    publish_made(exported(outputs, table, ".json"), files.as_json(about))

    path = exported(outputs, table)
    publish_made(path, csv_text(table))
    return path


def read_table(path: Path) -> Table:
    """Return the table that `write_table` wrote, given the path of its .csv.

    Raises:
        UserError: the files are not a table. Or they lack the column `parent`, because Headroom was
            older when it wrote them, although runs of the table start from other runs.
    """
    about = path.with_suffix(".json")
    description = files.read_object(about)
    if description is None or not {"name", "experiment"} <= description.keys():
        raise UserError(f"{about} describes no experiment; {_collect_again()}.")
    columns, rows = read_rows(path)

    experiment = description["experiment"]
    arms = experiment.get("arms", {}).values()
    inherits = experiment.get("finetune") or any(arm.get("parent") for arm in arms)
    if inherits and "parent" not in columns:
        words = "lacks the column parent, which says from which run each run starts"
        raise UserError(f"{path} {words}; {_collect_again()}.")

    code = description.get("code")
    return Table(
        description["name"],
        experiment,
        description.get("provenance") or {},
        description.get("settings") or {},
        columns,
        rows,
        code=MixedCode(**code) if code else None,
    )


def _collect_again() -> str:
    return f"write the tables again: {as_typed('collect')}"


def read_rows(path: Path) -> tuple[list[str], list[Row]]:
    """Return the columns and the rows of a table's .csv. Raise UserError if it is unreadable."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            columns, *lines = filter(None, csv.reader(file))
        cells = [
            {
                name: _read_cell(name, text)
                for name, text in zip(columns, line, strict=True)
            }
            for line in lines
        ]
    except (OSError, ValueError) as error:
        raise UserError(
            f"{path} cannot be read ({error}); {_collect_again()}."
        ) from None
    if missing := NAMES.keys() - {*columns}:
        lacks = "the column " if len(missing) == 1 else "the columns "
        lacks += ", ".join(sorted(missing))
        raise UserError(f"{path} lacks {lacks}; {_collect_again()}.")
    # Older tables lack this column, so compute it.
    return columns, [{"training_flops": training_flops(row), **row} for row in cells]


def _read_cell(name: str, text: str) -> Any:
    """Return the value of a cell. Numbers and booleans are converted, unless the column is text."""
    if not text:
        return None
    words = text.removeprefix("'")  # `_csv_cell` puts an apostrophe before formulas
    if schema_of(name).type is not str:
        with suppress(ValueError):
            found = json.loads(words)
            if isinstance(found, int | float):
                return found
    return words


def csv_text(table: Table) -> str:
    """Return the rows of a table as the text of its .csv."""
    return as_csv([table.columns, *table.cells])


def as_csv(rows: Iterable[Iterable[Any]]) -> str:
    """Return rows as the text of a .csv, so that spreadsheets do not execute cells as formulas."""
    lines: list[str] = []
    # Keep the default line end "\r\n" here: with another one, csv.writer would not quote a lone
    # "\r". Replace it below.
    writer = csv.writer(SimpleNamespace(write=lines.append))
    writer.writerows(map(_csv_cell, row) for row in rows)
    return "".join(line.removesuffix("\r\n") + "\n" for line in lines)


def _csv_cell(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, str):
        return value
    # A JSON string can contain a lone surrogate, which UTF-8 cannot encode.
    text = value.encode("utf-8", "backslashreplace").decode()
    return f"'{text}" if text.startswith(_FORMULA) else text
