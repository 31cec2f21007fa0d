"""An experiment as a paper prints it: settings across, parameters and metrics below each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sweeper.results.points import Measure, Point, caveats, measures, not_learned, origin
from sweeper.results.statistics.estimates import mean, sd
from sweeper.results.table import Table, label
from sweeper.store.numbers import short

ABSENT = "–"
_MOST_COLUMNS = 5

Line = tuple[str, ...]  # the words of a row, then its cells
Values = Mapping[Measure, Mapping[tuple[str, str], Point]]  # by the arm and name of the point


@dataclass(frozen=True)
class Block:
    """Some columns: what they are of, the line that heads them, the lines below it."""

    title: str
    head: Line
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class PaperTable:
    """A whole table: its blocks from top to bottom, and what a reader must know."""

    title: str
    blocks: tuple[Block, ...]
    notes: tuple[str, ...]


def has_paper_table(table: Table) -> bool:
    """Whether the experiment is one that a paper prints as a table."""
    about = table.experiment
    return about.get("figure") == "table" or bool(about.get("finetune"))


def paper_table(table: Table) -> PaperTable:
    """What was measured, by arm; beside it, or below it at another scale, what the paper prints."""
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
        blocks.append(_published(label(str(about.get("x"))), published, shown))
    return PaperTable(table.title, tuple(blocks), tuple(_notes(table)))


def _measured(
    table: Table, arm: str, by_measure: Values, published: Mapping[str, Mapping[str, Any]]
) -> Iterator[Block]:
    every = [point for found in by_measure.values() for point in found.values()]
    points = list({point.name: point for point in every if point.arm == arm}.values())
    words, names = _heads(points, str(table.experiment.get("x")))
    for start in range(0, len(points), _MOST_COLUMNS):
        part, head = points[start : start + _MOST_COLUMNS], names[start : start + _MOST_COLUMNS]
        beside = [published.get(name, {}) for name in head]
        rows = [("params", label("params_total"), [_parameters(point) for point in part])]
        for measure, found in by_measure.items():
            rows.append((measure.metric, measure.words, [_cell(point, found) for point in part]))
        lines: list[Line] = []
        for key, name, cells in rows:
            lines.append((name, *cells))
            lines += [_paper(key, f"{name}, paper", beside)] if any(beside) else []
        yield Block(table.label(arm), (words, *head), tuple(lines))


def _heads(points: Sequence[Point], x: str) -> tuple[str, list[str]]:
    """What goes across in words, and its value in each column: a number where that is enough."""
    keys = [x if x in point.settings else next(iter(point.settings), "") for point in points]
    values = [point.at(key) for point, key in zip(points, keys, strict=True)]
    numbers = [short(value) for value in values if value is not None]
    if len(set(keys)) == 1 and len(set(numbers)) == len(points):
        return label(keys[0]), numbers
    return "setting", [point.name for point in points]


def _parameters(point: Point) -> str:
    size = point.at("params_total")
    return ABSENT if size is None else short(size)


def _cell(point: Point, found: Mapping[tuple[str, str], Point]) -> str:
    """Mean ± sd over seeds, and how many there are where some are missing."""
    own = found.get((point.arm, point.name))
    if own is None or not own.values:
        return ABSENT
    values = list(own.values.values())
    spread = sd(values)
    cell = f"{mean(values):.2f}" + ("" if spread is None else f" ± {spread:.2f}")
    return cell if len(values) == len(own.runs) else f"{cell} ({len(values)}/{len(own.runs)})"


def _published(x: str, published: Mapping[str, Mapping[str, Any]], shown: list[Measure]) -> Block:
    columns = list(published.values())
    lines = [_paper("params", label("params_total"), columns)]
    lines += [_paper(measure.metric, measure.words, columns) for measure in shown]
    return Block("the paper, at its own scale", (x, *published), tuple(lines))


def _paper(key: str, words: str, columns: Sequence[Mapping[str, Any]]) -> Line:
    """A line of what the paper prints; a list is a mean and its spread."""
    found = [column.get(key, ABSENT) for column in columns]
    return (words, *(" ± ".join(map(str, c)) if isinstance(c, list) else str(c) for c in found))


def _notes(table: Table) -> Iterator[str]:
    yield from origin(table)
    counts = {len(p.runs) for measure in measures(table) for p in measure.points(table)}
    if counts:
        seeds = " to ".join(str(count) for count in dict.fromkeys((min(counts), max(counts))))
        yield f"Mean ± standard deviation over {seeds} seed{'s' * (max(counts) > 1)}."
    if table.experiment.get("finetune"):
        yield f"{_pretrainings(table)} Parameters are the pre-training's."
    for measure in measures(table):
        found = [f"{words} {value:.2f}" for words, value in measure.baselines(table).items()]
        if found:
            yield f"{measure.words} of baselines: {', '.join(found)}."
    yield from not_learned(table)
    yield from caveats(table)


def _pretrainings(table: Table) -> str:
    """What a seed is one of, by the runs that each setting was fine-tuned from."""
    parents: dict[tuple[str, str], set[str]] = {}
    for row in table.rows:
        if row.get("parent"):
            parents.setdefault((row["arm"], row["point"]), set()).add(row["parent"])
    if any(len(own) > 1 for own in parents.values()):
        return "Each seed has a pre-training of its own."
    return "One pre-training a setting: the seeds are those of fine-tuning."
