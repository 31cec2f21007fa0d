"""Tables as papers print them: a column for each setting, a line for each metric."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeper.results.points import (
    Measure,
    Point,
    caveats,
    measures,
    metric_of,
    not_learned,
    origin,
    points,
    range_in_words,
    standing,
)
from sweeper.results.statistics.estimates import sd
from sweeper.results.table import Table, csv_line, exported, label, publish_made, stem
from sweeper.store.errors import sanitize
from sweeper.store.numbers import short

ABSENT = "–"
_MOST_COLUMNS = 5

Line = tuple[str, ...]  # the words of a row, then its cells
Values = Mapping[
    Measure, Mapping[tuple[str, str], Point]
]  # by the arm and name of the point


@dataclass(frozen=True)
class Block:
    """Some columns of a table: a title, the head, and the lines below it."""

    title: str
    head: Line
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class PaperTable:
    """A whole table: its blocks from top to bottom, and notes for the reader."""

    title: str
    blocks: tuple[Block, ...]
    notes: tuple[str, ...]


def has_paper_table(table: Table) -> bool:
    """Return True if a paper prints the experiment as a table."""
    about = table.experiment
    return about.get("figure") == "table" or bool(about.get("finetune"))


def paper_table(table: Table) -> PaperTable:
    """Return the measured values by arm, with the numbers that the paper prints.

    These stand beside the measured ones, or in a block of their own if the scale is another.
    """
    about = table.experiment
    published: Mapping[str, Mapping[str, Any]] = about.get("paper") or {}
    same_scale = about.get("scale") == "paper"
    shown = measures(table)
    by_measure = {
        measure: {(point.arm, point.name): point for point in measure.points(table)}
        for measure in shown
    }
    blocks = [
        block
        for arm in about["arms"]
        for block in _measured(table, arm, by_measure, published if same_scale else {})
    ]
    if published and not same_scale:
        columns = list(published.values())
        lines = [_paper("params", label("params_total"), columns)]
        lines += [_paper(measure.metric, measure.words, columns) for measure in shown]
        head = (label(str(about.get("x"))), *published)
        blocks.append(Block("the paper, at its own scale", head, tuple(lines)))
    return PaperTable(table.title, tuple(blocks), tuple(_notes(table)))


def _measured(
    table: Table,
    arm: str,
    by_measure: Values,
    published: Mapping[str, Mapping[str, Any]],
) -> Iterator[Block]:
    every = [point for found in by_measure.values() for point in found.values()]
    points = list({point.name: point for point in every if point.arm == arm}.values())
    x = str(table.experiment.get("x"))
    keys = [
        x if x in point.settings else next(iter(point.settings), "") for point in points
    ]
    values = [point.at(key) for point, key in zip(points, keys, strict=True)]
    words, names = "setting", [point.name for point in points]
    numbers = [short(value) for value in values if value is not None]
    if len(set(keys)) == 1 and len(set(numbers)) == len(points):
        words, names = label(keys[0]), numbers  # which say as much as the names
    for start in range(0, len(points), _MOST_COLUMNS):
        part, head = (
            points[start : start + _MOST_COLUMNS],
            names[start : start + _MOST_COLUMNS],
        )
        beside = [published.get(name, {}) if {*keys} == {x} else {} for name in head]
        sizes = [point.at("params_total") for point in part]
        counts = [ABSENT if size is None else short(size) for size in sizes]
        rows = [("params", label("params_total"), counts)]
        for measure, found in by_measure.items():
            rows.append(
                (measure.metric, measure.words, [_cell(point, found) for point in part])
            )
        lines: list[Line] = []
        for key, name, cells in rows:
            lines.append((name, *cells))
            lines += [_paper(key, f"{name}, paper", beside)] if any(beside) else []
        yield Block(table.label(arm), (words, *head), tuple(lines))


def _cell(point: Point, found: Mapping[tuple[str, str], Point]) -> str:
    """Return mean ± sd over seeds, and the number of seeds if some are missing."""
    own = found.get((point.arm, point.name))
    if own is None or not own.values:
        return ABSENT
    values = list(own.values.values())
    middle, spread = own.mean, sd(values)
    digits = (
        ".2g" if 0 < abs(middle) < 0.1 else ".2f"
    )  # two decimals would hide small numbers
    if spread and f"{spread:.2f}" == "0.00" and digits == ".2f":
        digits = f".{1 - math.floor(math.log10(spread))}f"
    cell = f"{middle:{digits}}" + ("" if spread is None else f" ± {spread:{digits}}")
    return (
        cell
        if len(values) == len(own.runs)
        else f"{cell} ({len(values)}/{len(own.runs)})"
    )


def _paper(key: str, words: str, columns: Sequence[Mapping[str, Any]]) -> Line:
    """Return a line of the paper's numbers; a list holds a mean and its spread."""
    found = [column.get(key, ABSENT) for column in columns]
    return (
        words,
        *(" ± ".join(map(str, c)) if isinstance(c, list) else str(c) for c in found),
    )


def _notes(table: Table) -> Iterator[str]:
    yield from origin(table)
    counts = {len(p.runs) for measure in measures(table) for p in measure.points(table)}
    if counts:
        seeds = range_in_words(counts)
        several = f"Mean ± standard deviation over {seeds} seeds."
        yield several if max(counts) > 1 else "One seed."
    if table.experiment.get("finetune"):
        parents: dict[tuple[str, str], set[str]] = {}
        for row in table.rows:
            if row.get("parent"):
                parents.setdefault((row["arm"], row["point"]), set()).add(row["parent"])
        pretraining = "One pre-training a setting: the seeds are those of fine-tuning."
        if any(len(own) > 1 for own in parents.values()):
            pretraining = "Each seed has a pre-training of its own."
        yield f"{pretraining} Parameters are the pre-training's."
    for measure in measures(table):
        found = [
            f"{words} {value:.2f}" for words, value in measure.baselines(table).items()
        ]
        if found:
            yield f"{measure.words} of baselines: {', '.join(found)}."
    yield from standing(table)
    yield from not_learned(table)
    yield from caveats(table)


_LIMIT = 60  # letters of a cell
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


def write_paper_table(outputs: Path, table: Table) -> None:
    content = paper_table(table)
    files = {
        "txt": "".join(f"{line}\n" for line in as_text(content)),
        "csv": as_csv(content),
        "tex": as_latex(content, stem(table.name)),
    }
    for kind, text in files.items():
        publish_made(exported(outputs, table, f".printed.{kind}"), text)


def as_text(content: PaperTable) -> list[str]:
    """Return lines of text; the columns of all blocks are aligned."""
    grids = [
        [_safe(line) for line in (block.head, *block.lines)] for block in content.blocks
    ]
    lines = [line for grid in grids for line in grid]
    first = max((len(line[0]) for line in lines), default=0)
    rest = max((len(cell) for line in lines for cell in line[1:]), default=0)
    text = [sanitize(content.title, 200)]
    for block, grid in zip(content.blocks, grids, strict=True):
        text += ["", sanitize(block.title, _LIMIT)]
        for line in grid:
            cells = [cell.rjust(rest) for cell in line[1:]]
            text.append("  ".join([line[0].ljust(first), *cells]).rstrip())
    return [*text, "", *(sanitize(note, 400) for note in content.notes)]


def as_csv(content: PaperTable) -> str:
    """Return CSV; the first column is the title of the block."""
    return "".join(
        csv_line([sanitize(block.title, _LIMIT), *_safe(line)])
        for block in content.blocks
        for line in (block.head, *block.lines)
    )


def as_latex(content: PaperTable, name: str) -> str:
    r"""Return a table environment with a tabular for each block; `name` is in its \label."""
    lines = ["% needs \\usepackage{booktabs}", "\\begin{table}", "\\centering"]
    lines.append(f"\\caption{{{sanitize(content.title, 200).translate(_LATEX)}}}")
    lines.append(f"\\label{{tab:{name}}}")
    for block in content.blocks:
        columns = len(block.head)
        title = sanitize(block.title, _LIMIT).translate(_LATEX)
        title = f"\\multicolumn{{{columns}}}{{l}}{{{title}}} \\\\"
        lines += [
            "\\par\\medskip",
            f"\\begin{{tabular}}{{l{'r' * (columns - 1)}}}",
            "\\toprule",
        ]
        lines += [title, _row(block.head), "\\midrule", *map(_row, block.lines)]
        lines += ["\\bottomrule", "\\end{tabular}"]
    lines += [
        f"\\par\\footnotesize {sanitize(note, 400).translate(_LATEX)}"
        for note in content.notes
    ]
    return "\n".join([*lines, "\\end{table}", ""])


def _row(line: Line) -> str:
    return " & ".join(cell.translate(_LATEX) for cell in _safe(line)) + " \\\\"


def _safe(line: Line) -> Line:
    return tuple(sanitize(cell, _LIMIT) for cell in line)


HEADER = ("arm", "point", "seeds", "mean", "sd", "parameters")
_LEFT = 2  # columns of words, aligned left; the rest are numbers


def summarise(table: Table) -> list[str]:
    """Return lines of text: the mean and standard deviation over seeds of each point."""
    if has_paper_table(table):
        head, *lines = as_text(paper_table(table))
        return [f"{sanitize(table.name, 80)}: {head}", *lines]
    metrics = {arm: metric_of(table, arm) for arm in table.experiment["arms"]}
    by_metric = {metric: points(table, metric) for metric in metrics.values()}
    everything = [
        p for arm, own in metrics.items() for p in by_metric[own] if p.arm == arm
    ]
    counts = sorted(
        {str(row["match_count"]) for row in table.rows if row.get("match_count")}
    )
    rows: list[Sequence[str]] = [(*HEADER, " ".join(["match error", *counts]))]
    for point in everything:
        values = list(point.values.values())
        own, size, error = sd(values), point.at("params_total"), point.at("match_error")
        cells = (
            clipped(point.arm, 24),
            clipped(point.name, 60),
            f"{len(values)}/{len(point.runs)}",
            f"{point.mean:.4g}" if values else "-",
            "" if own is None else f"± {own:.2g}",
            "-" if size is None else short(size),
            "" if error is None else f"{error:+.2%}",
        )
        rows.append(cells)
    words = ", ".join(dict.fromkeys(map(label, metrics.values())))
    title = f"{sanitize(table.name, 80)}: {sanitize(words, 160)}"
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(
            cell.ljust(width) if column < _LEFT else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    mixed = [table.mixed_code] if table.mixed_code else []
    mixed = [sanitize(table.mixed_code, 2000)] if table.mixed_code else []
    return [title, *mixed, *lines, *map(sanitize, caveats(table))]


def clipped(text: str, limit: int) -> str:
    """Return text on one harmless line of at most `limit` letters."""
    safe = sanitize(text)
    return safe if len(safe) <= limit else safe[: limit - 1] + "…"
