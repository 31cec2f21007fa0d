"""Tables in the layout of papers: a column for each setting, a row for each metric."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, islice, zip_longest
from pathlib import Path
from statistics import stdev

from sweeper.results.points import (
    Point,
    measures,
    metric_of,
    points,
)
from sweeper.results.remarks import (
    caveats,
    not_learned,
    one_pretraining,
    origin,
    span,
    standing,
)
from sweeper.results.table import (
    Data,
    Table,
    as_csv,
    exported,
    label,
    publish_made,
)
from sweeper.store.errors import sanitize
from sweeper.store.numbers import short
from sweeper.store.plans import stem

ABSENT = "–"
_PRINTED = re.compile(
    r"(\d+(?:\.\d+)?)([kMB]?)"
)  # a number of parameters, such as "336M"
_UNITS = {"": 1.0, "k": 1e3, "M": 1e6, "B": 1e9}
_LIMIT = 60  # a cell has at most this many characters

Line = tuple[str, ...]  # the label of a row, then its cells
Published = Mapping[str, Data]  # a paper's numbers, as {setting: {metric: number}}


@dataclass(frozen=True)
class Block:
    """A part of a table with its own columns: a title, a head and the lines below it."""

    title: str
    head: Line
    lines: tuple[Line, ...]

    @property
    def rows(self) -> list[Line]:
        """The head and the lines."""
        return [self.head, *self.lines]


@dataclass(frozen=True)
class PaperTable:
    """A table: blocks from top to bottom, and notes below them. All text is sanitized."""

    title: str
    blocks: tuple[Block, ...]
    notes: tuple[str, ...]


def has_paper_table(table: Table) -> bool:
    """Return whether results of the experiment are also shown as a table like those of papers."""
    about = table.experiment
    return about.get("figure") == "table" or bool(about.get("finetune"))


def paper_table(table: Table) -> PaperTable:
    """Return a table with a block of measured values for each arm, and the paper's numbers.

    If the experiment ran at the paper's scale, the paper's numbers stand below those of models that
    have the paper's number of parameters. Otherwise, they have a block of their own.
    """
    about = table.experiment
    published: Published = about.get("paper") or {}
    same_scale = about.get("scale") == "paper"

    beside = published if same_scale else {}
    blocks = [_measured(table, arm, beside) for arm in about["arms"]]
    if published and not same_scale:
        rows = {"params": label("params_total")}
        rows |= {measure.metric: measure.words for measure in measures(table)}
        columns = list(published.values())
        lines = [_paper(key, words, columns) for key, words in rows.items()]
        head = (label(str(about.get("x"))), *published)
        blocks.append(_block("the paper, at its own scale", head, lines))
    notes = tuple(sanitize(note, 400) for note in notes_below(table))
    return PaperTable(sanitize(table.title, 200), tuple(blocks), notes)


def _block(title: str, head: Line, lines: Sequence[Line]) -> Block:
    rows = [tuple(sanitize(cell, _LIMIT) for cell in row) for row in (head, *lines)]
    return Block(sanitize(title, _LIMIT), rows[0], tuple(rows[1:]))


def _measured(table: Table, arm: str, published: Published) -> Block:
    """Return the block of an arm: a column for each of its points."""
    by_measure = {
        measure: {p.name: p for p in measure.points(table) if p.arm == arm}
        for measure in measures(table, arm)
    }
    columns = {name: p for own in by_measure.values() for name, p in own.items()}

    x = str(table.experiment.get("x"))
    keys = {
        x if x in p.settings else next(iter(p.settings), "") for p in columns.values()
    }
    words, head = "setting", [*columns]
    if len(keys) == 1:
        [key] = keys
        values = [point.at(key) for point in columns.values()]
        numbers = [short(value) for value in values if value is not None]
        if len(set(numbers)) == len(columns):
            words, head = label(key), numbers

    sizes = [point.at("params_total") for point in columns.values()]
    counts = [ABSENT if size is None else short(size) for size in sizes]
    rows = [("params", label("params_total"), counts)]
    for measure, own in by_measure.items():
        cells = [_cell(own.get(name)) for name in columns]
        rows.append((measure.metric, measure.words, cells))

    known = published if keys == {x} else {}
    beside = [
        _of_same_size(known.get(name, {}), size)
        for name, size in zip(head, sizes, strict=True)
    ]
    lines: list[Line] = []
    for key, name, cells in rows:
        lines.append((name, *cells))
        if any(beside):
            lines.append(_paper(key, f"{name}, paper", beside))
    return _block(table.label(arm), (words, *head), lines)


def _of_same_size(printed: Data, size: float | None) -> Data:
    """Return a paper's numbers of a model, or {} if its `params` differ from `size` by over 1 %."""
    found = _PRINTED.fullmatch(str(printed.get("params")))
    if size is None or found is None:
        return printed
    amount, unit = found.groups()
    is_same = math.isclose(size, float(amount) * _UNITS[unit], rel_tol=0.01)
    return printed if is_same else {}


def _cell(point: Point | None) -> str:
    """Return mean ± standard deviation over seeds, with the number of seeds if some are missing."""
    if point is None or not point.values:
        return ABSENT
    values = list(point.values.values())
    spread = stdev(values) if len(values) > 1 else None
    # Small numbers need more than two decimals.
    digits = ".2g" if 0 < abs(point.mean) < 0.1 else ".2f"
    if digits == ".2f" and spread and spread < 0.005:
        digits = f".{1 - math.floor(math.log10(spread))}f"

    cell = f"{point.mean:{digits}}"
    if spread is not None:
        cell += f" ± {spread:{digits}}"
    if len(values) < len(point.runs):
        cell += f" ({len(values)}/{len(point.runs)})"
    return cell


def _paper(key: str, words: str, columns: Sequence[Data]) -> Line:
    """Return a line with the paper's numbers of the metric `key`, one for each of `columns`.

    A number is a scalar, or a list of a mean and its spread. `words` is the label of the line.
    """
    found = [column.get(key, ABSENT) for column in columns]
    cells = [" ± ".join(map(str, c)) if isinstance(c, list) else str(c) for c in found]
    return words, *cells


def notes_below(table: Table) -> Iterator[str]:
    """Yield the notes to print below a table."""
    yield from origin(table)
    points = [point for one in measures(table) for point in one.points(table)]
    counts = {len(point.runs) for point in points}
    if counts:
        seeds = span(sorted(counts))
        over_seeds = f"Mean ± standard deviation over {seeds} seeds."
        yield over_seeds if max(counts) > 1 else "One seed."

    if table.experiment.get("finetune"):
        yield "Parameters are those of the pre-trained model."
    yield from one_pretraining(table, points)

    yield from standing(table)
    yield from not_learned(table)
    yield from caveats(table)


def write_paper_table(outputs: Path, table: Table) -> None:
    """Write a table as text, CSV and LaTeX."""
    content = paper_table(table)
    files = {
        "txt": "".join(f"{line}\n" for line in as_text(content)),
        "csv": as_csv(
            [block.title, *row] for block in content.blocks for row in block.rows
        ),
        "tex": as_latex(content, stem(table.name)),
    }
    for kind, text in files.items():
        publish_made(exported(outputs, table, f".printed.{kind}"), text)


def as_text(content: PaperTable) -> list[str]:
    """Return the title, the blocks and the notes as lines of text."""
    return [content.title, "", *blocks_as_text(content), "", *content.notes]


def blocks_as_text(content: PaperTable) -> list[str]:
    """Return the blocks as lines of text, with the columns of all blocks aligned."""
    lines = iter(_aligned([row for own in content.blocks for row in own.rows], left=1))
    text: list[str] = []
    for block in content.blocks:
        text += ["", block.title, *islice(lines, len(block.rows))]
    return text[1:]


def _aligned(rows: Sequence[Line], left: int) -> list[str]:
    """Return rows as lines of text. Align the first `left` columns left and the others right.

    Rows may differ in length.
    """
    columns = zip_longest(*rows, fillvalue="")
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if place < left else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=False))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


_LATEX = str.maketrans(
    {
        **{letter: f"\\{letter}" for letter in "&%$#_{}"},
        "\\": "\\textbackslash{}",
        "~": "\\textasciitilde{}",
        "^": "\\textasciicircum{}",
        "<": "\\textless{}",
        ">": "\\textgreater{}",
        "±": "$\\pm$",
        "–": "--",
    }
)

_TABLE = r"""% needs \usepackage{{booktabs}}
\begin{{table}}
\centering
\caption{{{title}}}
\label{{tab:{name}}}
{blocks}
{notes}
\end{{table}}
"""
_TABULAR = r"""\par\medskip
\begin{{tabular}}{{{columns}}}
\toprule
\multicolumn{{{count}}}{{l}}{{{title}}} \\
{head} \\
\midrule
{lines}
\bottomrule
\end{{tabular}}"""


def as_latex(content: PaperTable, name: str) -> str:
    r"""Return a LaTeX table with a tabular for each block, and with the label "tab:{name}"."""

    def escaped(text: str) -> str:
        return text.translate(_LATEX)

    blocks = []
    for block in content.blocks:
        head, *lines = (" & ".join(map(escaped, row)) for row in block.rows)
        count = len(block.head)
        blocks.append(
            _TABULAR.format(
                columns="l" + "r" * (count - 1),
                count=count,
                title=escaped(block.title),
                head=head,
                lines="\n".join(rf"{line} \\" for line in lines),
            )
        )
    notes = [rf"\par\footnotesize {escaped(note)}" for note in content.notes]
    return _TABLE.format(
        title=escaped(content.title),
        name=name,
        blocks="\n".join(blocks),
        notes="\n".join(notes),
    )


HEADER = ("arm", "point", "seeds", "mean", "sd", "parameters")


def summarise(table: Table) -> list[str]:
    """Return each point's mean and standard deviation over seeds, as lines of text."""
    if has_paper_table(table):
        head, *lines = as_text(paper_table(table))
        return [f"{sanitize(table.name, 80)}: {head}", *lines]

    metrics = {arm: metric_of(table, arm) for arm in table.experiment["arms"]}
    words = [sanitize(label(metric), 160) for metric in dict.fromkeys(metrics.values())]
    counts = {str(row["match_count"]) for row in table.rows if row.get("match_count")}
    rows: list[Line] = [(*HEADER, " ".join(["match error", *sorted(counts)]), "metric")]
    for arm, metric in metrics.items():
        own = [point for point in points(table, metric) if point.arm == arm]
        rows += [(*_summary(point), sanitize(label(metric), 60)) for point in own]
    shown = [*(True for _ in HEADER), bool(counts), len(words) > 1]
    rows = [tuple(compress(row, shown)) for row in rows]

    title = f"{sanitize(table.name, 80)}: {', '.join(words)}"
    mixed = [sanitize(table.mixed_code, 2000)] if table.mixed_code else []
    notes = (*standing(table), *not_learned(table), *caveats(table))
    return [
        title,
        *mixed,
        *_aligned(rows, left=2),
        *(sanitize(one, 1000) for one in notes),
    ]


def _summary(point: Point) -> Line:
    """Return the line of a point in a table of results. Its cells are in the order of HEADER."""
    values = list(point.values.values())
    spread = stdev(values) if len(values) > 1 else None
    size, error = point.at("params_total"), point.at("match_error")
    return (
        sanitize(point.arm, 24),
        sanitize(point.name, 60),
        f"{len(values)}/{len(point.runs)}",
        f"{point.mean:.4g}" if values else "-",
        "" if spread is None else f"± {spread:.2g}",
        "-" if size is None else short(size),
        "" if error is None else f"{error:+z.2%}",
    )
