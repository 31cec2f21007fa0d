"""Prints docs/results/README.md from the records beside it: `python -m benchmarks.findings`."""

from __future__ import annotations

import argparse
import csv
import json
import math
import shlex
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.measure import ROOT, table
from sweeper.results.claims.evidence.verdict import Answer, Found, Verdict
from sweeper.results.table import label

RESULTS = ROOT / "docs" / "results"
ABOUT = Path(__file__).with_suffix(".md")  # what no record says
SETTINGS = Path(__file__).with_suffix(".toml")
PAPER = ("theorem1", "fig1", "fig2", "fig3", "fig4", "table1", "table2a", "table2b", "table3")
DECIDES = "hydra.sweeper.decide=true"  # as it is typed
SCALES = ("demo", "cpu", "gpu", "paper")


@dataclass(frozen=True)
class Kept:
    """The records of one experiment in one folder of results.

    Attributes:
        folder, experiment: where they lie, and whose they are.
        scale, text: at which they were made, and on what.
        verdicts: as they were judged.
        rows: of its table; a run that several arms use has several.
        trials: the rows of what chose its learning rates.
        provenance: the plan that it is of: its command and its rounds; empty of old ones.
        figure: a picture, if it has one.
    """

    folder: Path
    experiment: str
    scale: str
    text: str
    verdicts: list[Verdict]
    rows: list[dict[str, str]]
    trials: list[dict[str, str]]
    provenance: Mapping[str, Any]
    figure: Path | None

    @property
    def runs(self) -> dict[str, dict[str, str]]:
        """A row of each judged run that is done, by its id."""
        return _done(self.rows)

    @property
    def hours(self) -> float:
        """Device hours of what was judged."""
        return _hours(self.runs)

    @property
    def rounds(self) -> str:
        """How many rounds bought its seeds: the plan's own, and those that it says came before."""
        if DECIDES not in self.provenance.get("command", ()):
            return ""
        return str(len(self.provenance.get("rounds", ())) + 1)

    @property
    def seeds(self) -> str:
        """How many each point has: the fewest and the most."""
        done = Counter(
            (r["arm"], r["point"], r.get("task")) for r in self.rows if r["run"] in self.runs
        )
        ends = dict.fromkeys((min(done.values(), default=0), max(done.values(), default=0)))
        return " to ".join(map(str, ends))


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args()
    (options.results / "README.md").write_text(page(options.results), "utf-8")


def page(results: Path) -> str:
    """The text of the page on all that is kept in that folder."""
    known = tomllib.loads(SETTINGS.read_text("utf-8"))
    found = sorted(kept(results, known), key=_order)
    parts = {"claims": _claims(found), "settings": _settings(found), "commands": _commands(found)}
    parts["figures"] = "\n".join(_figures(results, found))
    text = ABOUT.read_text("utf-8")
    for name, part in parts.items():
        text = text.replace(f"{{{name}}}", part.rstrip("\n"))
    return text


def kept(results: Path, known: Mapping[str, Mapping[str, str]]) -> Iterator[Kept]:
    """What lies there; `known` says by folder what old records do not say themselves."""
    for path in sorted(results.rglob("*.claims.json")):
        judged = json.loads(path.read_text("utf-8"))
        stem = path.name.removesuffix(".claims.json")
        about, trials = path.with_name(f"{stem}.json"), path.with_name(f"{stem}_trials.csv")
        folder = results / path.relative_to(results).parts[0]
        planned = json.loads(about.read_text("utf-8")) if about.exists() else {}
        said = planned.get("experiment") or known[folder.name]
        pictures = (path.with_name(f"{stem}.png"), folder / "figures" / f"{stem}.png")
        yield Kept(
            folder,
            judged["experiment"].partition("-")[0],  # after it, what was typed besides
            said["scale"],
            said["text"],
            [_verdict(one, label(judged["metric"])) for one in judged["verdicts"]],
            _rows(path.with_name(f"{stem}.csv")),
            _rows(trials) if trials.exists() else [],
            planned.get("provenance", {}),
            next((one for one in pictures if one.exists()), None),
        )


def _rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def _done(rows: Iterable[dict[str, str]]) -> dict[str, dict[str, str]]:
    return {row["run"]: row for row in rows if row["state"] == "done"}


def _hours(runs: Mapping[str, Mapping[str, str]]) -> float:
    return sum(float(row["seconds"] or 0) for row in runs.values()) / 3600


def _verdict(said: Mapping[str, Any], measure: str) -> Verdict:
    """A verdict as it was written down; the first of them did not say by what measure."""
    answer, measure = Answer(said["verdict"]), said.get("measure") or measure
    return Verdict(said["claim"], answer, said["sentence"], said["numbers"], measure)


def _order(one: Kept) -> tuple[Any, ...]:
    place = PAPER.index(one.experiment) if one.experiment in PAPER else len(PAPER)
    return place, one.experiment, SCALES.index(one.scale), one.folder.name


def _claims(found: Iterable[Kept]) -> str:
    """A row for each claim and measure, a column for each scale that has any."""
    cells: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    for one in found:
        for verdict in one.verdicts:
            row = cells.setdefault((one.experiment, verdict.claim, verdict.measure), {})
            row.setdefault(one.scale, []).append(_cell(one, verdict))
    scales = [scale for scale in SCALES if any(scale in row for row in cells.values())]
    rows = []
    for (experiment, claim, measure), row in cells.items():
        own = ("<br>".join(row.get(scale, ["not run"])) for scale in scales)
        rows.append((experiment, f"`{claim}`", measure, *own))
    return table(("experiment", "claim", "measured by", *scales), rows)


def _cell(one: Kept, verdict: Verdict) -> str:
    answer = verdict.answer if verdict.verdict is Answer.UNDECIDED else f"**{verdict.answer}**"
    seeds = verdict.numbers.get("price", {}).get("seeds")
    price = f"; to decide: {verdict.brief}" if seeds else ""
    cost = f"{one.seeds} seeds, {one.hours:.2f} device hours"
    return f"{answer}: {_effect(verdict)}; {cost}{price} ({_link(one)})"


def _link(one: Kept) -> str:
    return f"[{one.folder.name}]({one.folder.name}/README.md)"


def _effect(verdict: Verdict) -> str:
    """The contrast that is told first, and how many others there are."""
    if "first" not in verdict.numbers:
        return "judged by an earlier rule"
    contrasts = verdict.numbers["contrasts"]
    one, others = contrasts[verdict.numbers["first"]], len(contrasts) - 1
    ends = _end(one["low"], -1), _end(one["high"], 1)
    told = Found(one["words"], one["value"], *ends, one["unit"] == "log ratio")
    return f"{told}" + (f", and {others} more" if others else "")


def _end(value: float | None, sign: int) -> float:
    return sign * math.inf if value is None else value


def _settings(found: Iterable[Kept]) -> str:
    rows = []
    for one in sorted(found, key=lambda one: (SCALES.index(one.scale), one.folder.name)):
        tokens = sum(float(row["tokens_seen"] or 0) for row in one.runs.values())
        told = (f"{len(one.runs)}", f"{tokens / 1e6:.1f}M", f"{one.hours:.2f}")
        chosen = (f"{_hours(_done(one.trials)):.2f}" if one.trials else "", one.rounds)
        made = (_distinct(one, column) for column in ("device", "code"))
        rows.append((_link(one), one.scale, one.text, one.experiment, *told, *chosen, *made))
    head = (
        "kept in",
        "scale",
        "text",
        "experiment",
        "runs",
        "tokens",
        "device hours",
        "rates",
        "rounds",
    )
    return table((*head, "device", "code"), rows)


def _commands(found: Iterable[Kept]) -> str:
    """What was typed, where that is known."""
    typed = (one.provenance["command"] for one in found if one.provenance.get("command"))
    return "\n".join(f"    python {shlex.join(one)}" for one in typed)


def _distinct(one: Kept, column: str) -> str:
    return ", ".join(sorted({row[column] for row in one.runs.values() if row.get(column)}))


def _figures(results: Path, found: Iterable[Kept]) -> Iterator[str]:
    for one in found:
        if one.figure is not None:
            yield f"**{one.experiment}**, {one.scale} scale, {one.text}:\n"
            yield f"![{one.experiment}]({one.figure.relative_to(results).as_posix()})\n"


if __name__ == "__main__":
    main()
