"""Tables of results as text, CSV and LaTeX, and the summary of a table in the terminal.

A paper table has the layout of papers: a column for each setting, and a row for each metric.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from statistics import stdev

from sweeper.results.points import (
    Point,
    measures,
    metric_of,
    points,
)
from sweeper.results.remarks import (
    baseline_scores,
    caveats,
    not_learned,
    one_pretraining,
    origin,
    span,
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
_LIMIT = 60  # a cell has at most this many characters

Line = tuple[str, ...]  # a row: its label, then its cells
Published = Mapping[str, Data]  # the numbers in a paper, as {setting: {metric: number}}


@dataclass(frozen=True)
class Block:
    """A part of a table that has its own title and columns. The first row is the header."""

    title: str
    rows: list[Line]


@dataclass(frozen=True)
class PaperTable:
    """A paper table: blocks from top to bottom, and notes below them. All text is sanitized."""

    title: str
    blocks: list[Block]
    notes: list[str]


def has_paper_table(table: Table) -> bool:
    """Return whether the experiment has a paper table: it fine-tunes, or sets `figure: table`."""
    about = table.experiment
    return about.get("figure") == "table" or bool(about.get("finetune"))


def paper_table(table: Table) -> PaperTable:
    """Return a paper table with a block for each arm and, if known, one for the paper's numbers.

    Each block has a row for the number of parameters and a row for each metric.
    """
    about = table.experiment
    blocks = [_measured(table, arm) for arm in about["arms"]]
    published: Published = about.get("paper") or {}
    if published:
        lines = {"params": label("params_total")}
        lines |= {measure.metric: measure.words for measure in measures(table)}
        rows: list[Line] = [(label(str(about.get("x"))), *published)]
        for key, words in lines.items():
            numbers = [column.get(key, ABSENT) for column in published.values()]
            rows.append((words, *map(_printed, numbers)))
        blocks.append(_block("the paper, at its own scale", rows))
    notes = [sanitize(note, 400) for note in _notes(table)]
    return PaperTable(sanitize(table.title, 200), blocks, notes)


def _block(title: str, rows: Sequence[Line]) -> Block:
    sanitized = [tuple(sanitize(cell, _LIMIT) for cell in row) for row in rows]
    return Block(sanitize(title, _LIMIT), sanitized)


def _measured(table: Table, arm: str) -> Block:
    """Return the block of an arm, with a column for each of its points.

    The header row shows the value of one key at each point: the experiment's key `x` if the arm
    varies it, and else the first key that the arm varies. If these values are not different
    numbers, it shows the names of the points.
    """
    by_measure = {
        measure.words: {p.name: p for p in measure.points(table) if p.arm == arm}
        for measure in measures(table, arm)
    }
    columns = {name: p for own in by_measure.values() for name, p in own.items()}

    x = str(table.experiment.get("x"))
    varied = [key for point in columns.values() for key in point.settings]
    key = x if x in varied else next(iter(varied), "")
    values = [point.at(key) for point in columns.values()]
    words, names = label(key), [_number(value) for value in values]
    if None in values or len({*names}) < len(names):
        words, names = "setting", [*columns]

    sizes = [point.at("params_total") for point in columns.values()]
    rows: list[Line] = [(words, *names), (label("params_total"), *map(_number, sizes))]
    for measure, own in by_measure.items():
        rows.append((measure, *(_cell(own.get(name)) for name in columns)))
    return _block(table.label(arm), rows)


def _number(value: float | None) -> str:
    return ABSENT if value is None else short(value)


def _printed(value: object) -> str:
    """Return a number in a paper as text: 84.1 as "84.1", and [mean, spread] as "84.1 ± 0.3"."""
    return " ± ".join(map(str, value)) if isinstance(value, list) else str(value)


def _cell(point: Point | None) -> str:
    """Return "mean ± standard deviation" over seeds.

    If seeds are missing, append how many have a value, as in "3.21 ± 0.04 (2/3)".
    """
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


def _notes(table: Table) -> Iterator[str]:
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

    yield from baseline_scores(table)
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
    """Return rows as lines of text, with the columns of all rows aligned.

    The first `left` columns are aligned on the left, and the others on the right. Rows may have
    different numbers of cells.
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


def as_latex(content: PaperTable, name: str) -> str:
    r"""Return a LaTeX table with a tabular for each block. Its label is "tab:{name}"."""
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{_escaped(content.title)}}}",
        rf"\label{{tab:{name}}}",
    ]
    for block in content.blocks:
        head, *rows = (" & ".join(map(_escaped, row)) for row in block.rows)
        count = len(block.rows[0])
        lines += [
            r"\par\medskip",
            rf"\begin{{tabular}}{{l{'r' * (count - 1)}}}",
            r"\toprule",
            rf"\multicolumn{{{count}}}{{l}}{{{_escaped(block.title)}}} \\",
            rf"{head} \\",
            r"\midrule",
            *(rf"{row} \\" for row in rows),
            r"\bottomrule",
            r"\end{tabular}",
        ]
    lines += [rf"\par\footnotesize {_escaped(note)}" for note in content.notes]
    lines.append(r"\end{table}")
    return "".join(f"{line}\n" for line in lines)


def _escaped(text: str) -> str:
    return text.translate(_LATEX)


HEADER = ("arm", "point", "seeds", "mean", "sd", "parameters")


def summarise(table: Table) -> list[str]:
    """Return the lines that a sweep prints on a table: each point's results, and notes below.

    If the experiment has a paper table, return the lines of that table instead.
    """
    if has_paper_table(table):
        head, *lines = as_text(paper_table(table))
        return [f"{sanitize(table.name, 80)}: {head}", *lines]

    metrics = {arm: metric_of(table, arm) for arm in table.experiment["arms"]}
    words = list(dict.fromkeys(map(label, metrics.values())))
    counts = {str(row["match_count"]) for row in table.rows if row.get("match_count")}
    rows: list[Line] = [(*HEADER, " ".join(["match error", *sorted(counts)]), "metric")]
    for arm, metric in metrics.items():
        of = sanitize(label(metric), 60) if len(words) > 1 else ""
        own = [point for point in points(table, metric) if point.arm == arm]
        rows += [(*_summary(point), of) for point in own]
    columns = [column for column in zip(*rows, strict=True) if any(column[1:])]

    title = f"{table.name}: {', '.join(words)}"
    notes = (*baseline_scores(table), *not_learned(table), *caveats(table))
    return [
        sanitize(title, 240),
        *([sanitize(table.mixed_code, 2000)] if table.mixed_code else []),
        *_aligned(list(zip(*columns, strict=True)), left=2),
        *(sanitize(one, 1000) for one in notes),
    ]


def _summary(point: Point) -> Line:
    """Return the row of a point: its cells in the order of HEADER, then the match error."""
    values = list(point.values.values())
    spread = stdev(values) if len(values) > 1 else None
    size, error = point.at("params_total"), point.at("match_error")
    return (
        sanitize(point.arm, 24),
        sanitize(point.name, 60),
        f"{len(values)}/{len(point.runs)}",
        f"{point.mean:.4g}" if values else "-",
        "" if spread is None else f"± {spread:.2g}",
        _number(size),
        "" if error is None else f"{error:+z.2%}",
    )
