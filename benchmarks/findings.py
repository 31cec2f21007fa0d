"""Write the pages and tables of results from the records in docs/results.

`python -m benchmarks.findings` writes docs/results/README.md and docs/results/points.md, the table
in README.md, and the tables and the figure of docs/results/training_length.
"""

import argparse
import json
import re
import shlex
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks.measure import MADE, ROOT, TEXTS, in_per_cent, read_rows, table
from sweeper.results.table import label
from sweeper.results.verdict import Decision, Verdict
from sweeper.store.plans import ERROR

RESULTS = ROOT / "docs" / "results"
README = ROOT / "README.md"
TEMPLATE = Path(__file__).with_suffix(".md")
SETTINGS = Path(__file__).with_suffix(".toml")
POINTS = Path(__file__).with_name("points.md")  # the text above the table in points.md
PAPER = (
    "theorem1",
    "fig1",
    "fig2",
    "fig3",
    "fig4",
    "table1",
    "table2a",
    "table2b",
    "table3",
)
DECIDES = "hydra.sweeper.decide=true"
SCALES = ("demo", "cpu", "night", "gpu", "paper")

EARLIER = "earlier"  # the folder of replaced verdicts, next to the current ones

# Matches the folder name in the description of a text, such as "2 text files, folder novels".
_FOLDER = re.compile(r"\bfolder (\S+)")

Row = dict[str, str]


@dataclass(frozen=True)
class Kept:
    """The records of one experiment in one folder of results.

    Attributes:
        folder: the folder, such as docs/results/cpu.
        experiment: the name of the experiment.
        scale: the scale, such as "cpu".
        text: a description of the text.
        metric: the metric that is judged.
        verdicts: the current verdicts.
        before: the verdicts of the record that this one replaced. Empty if it replaced none.
        rows: the rows of the experiment's csv table. A run that several arms use has several rows.
        trials: the rows of the runs with which the learning rates were chosen.
        provenance: the command that planned the runs, and its rounds. Old records have {}.
        figure: the path of the figure, if there is one.
    """

    folder: Path
    experiment: str
    scale: str
    text: str
    metric: str
    verdicts: list[Verdict]
    before: list[Verdict]
    rows: list[Row]
    trials: list[Row]
    provenance: Mapping[str, Any]
    figure: Path | None

    @property
    def runs(self) -> dict[str, Row]:
        """Maps the id of each judged run that is done to one of its rows."""
        return done(self.rows)

    @property
    def counts(self) -> list[int]:
        """The number of finished seeds of each point, in ascending order."""
        finished = Counter(
            (row["arm"], row["point"], row.get("task"))
            for row in self.rows
            if row["run"] in self.runs
        )
        return sorted(finished.values()) or [0]

    @property
    def seeds(self) -> str:
        """The smallest and the largest number of seeds of a point, such as "3 to 9"."""
        return " to ".join(map(str, dict.fromkeys((self.counts[0], self.counts[-1]))))

    @property
    def column(self) -> str:
        """The heading of the text's column: its folder, such as "novels". "" without a folder."""
        folder = _FOLDER.search(self.text)
        return folder[1] if folder else ""


def main() -> None:
    """Write the pages and tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.parse_args()
    # This import is here because it imports pandas, which would make --help slow.
    from benchmarks.training_length import draw, with_tables

    (RESULTS / "README.md").write_text(page(RESULTS), "utf-8")
    (RESULTS / "points.md").write_text(points(RESULTS), "utf-8")
    lengths = RESULTS / "training_length" / "README.md"
    lengths.write_text(with_tables(lengths.read_text("utf-8"), lengths.parent), "utf-8")
    (lengths.parent / "perplexity.png").write_bytes(draw(lengths.parent))
    README.write_text(with_summary(README.read_text("utf-8"), RESULTS), "utf-8")


def with_summary(text: str, results: Path) -> str:
    """Return the text of README.md with a new table of differences."""
    known = tomllib.loads(SETTINGS.read_text("utf-8"))
    before, _, rest = text.partition(MADE)
    _, _, after = rest.partition("\n\n")
    records = {
        (one.experiment, one.column): one
        for one in kept(results, known)
        if one.scale == "cpu"
    }
    rows = []
    for row in known["summary"]:
        experiment, _, claim = row["from"].partition(".")
        cells = (
            difference(
                records[experiment, text], claim, row["contrast"], row.get("reversed")
            )
            for text in TEXTS
        )
        rows.append((row["better"], row["than"], *cells))
    return (
        f"{before}{MADE}{table(('better', 'than', *TEXTS), rows).rstrip()}\n\n{after}"
    )


def difference(one: Kept, claim: str, place: int, backwards: bool | None) -> str:
    """Return a contrast of a claim, in per cent of the smaller perplexity, with its interval.

    Args:
        one: the record with a verdict on the claim.
        claim: the name of the claim.
        place: the index of the contrast in the claim.
        backwards: whether to swap the two sides of the contrast.
    """
    [verdict] = [verdict for verdict in one.verdicts if verdict.claim == claim]
    contrast = verdict.numbers["contrasts"][place]
    ends = [contrast["value"], contrast["low"], contrast["high"]]
    if backwards:
        ends = [-contrast["value"], -contrast["high"], -contrast["low"]]
    return in_per_cent(*ends)


def page(results: Path) -> str:
    """Return the text of docs/results/README.md."""
    known = tomllib.loads(SETTINGS.read_text("utf-8"))

    def order(one: Kept) -> tuple[Any, ...]:
        place = PAPER.index(one.experiment) if one.experiment in PAPER else len(PAPER)
        return place, one.experiment, SCALES.index(one.scale), one.folder.name

    found = sorted(kept(results, known), key=order)
    commands = (
        one.provenance["command"] for one in found if one.provenance.get("command")
    )
    figures = (
        f"**{one.experiment}**, {one.scale} scale, {one.text}:\n\n"
        f"![{one.experiment}]({one.figure.relative_to(results).as_posix()})\n"
        for one in found
        if one.figure is not None
    )
    parts = {
        "families": families(found),
        "claims": claims(found),
        "changed": changed(found, known.get("changed", {})),
        "settings": settings(found),
        "commands": "\n".join(
            f"    python {shlex.join(command)}" for command in commands
        ),
        "figures": "\n".join(figures),
    }
    text = TEMPLATE.read_text("utf-8")
    for name, part in parts.items():
        text = text.replace(f"{{{name}}}", part.rstrip("\n"))
    return text


def points(results: Path) -> str:
    """Return the text of docs/results/points.md, with the mean of every point at cpu scale."""
    known = tomllib.loads(SETTINGS.read_text("utf-8"))
    cells: dict[tuple[str, str, str], dict[str, str]] = {}
    for one in sorted(kept(results, known), key=lambda one: one.experiment):
        if one.scale != "cpu" or one.column not in TEXTS:
            continue
        values: dict[tuple[str, str], list[float]] = {}
        for row in one.rows:
            if row["state"] == "done" and row.get(one.metric):
                place = (row["arm"], row["point"])
                values.setdefault(place, []).append(float(row[one.metric]))
        for (arm, point), seeds in values.items():
            spread = f" ± {stdev(seeds):.2g}" if len(seeds) > 1 else ""
            words = f"{mean(seeds):.4g}{spread} ({len(seeds)})"
            cells.setdefault((one.experiment, arm, point), {})[one.column] = words
    rows = (
        (*place, *(own.get(text, "") for text in TEXTS)) for place, own in cells.items()
    )
    words = POINTS.read_text("utf-8")
    return f"{words}\n{table(('experiment', 'arm', 'point', *TEXTS), rows)}\n"


def kept(results: Path, known: Mapping[str, Mapping[str, str]]) -> Iterator[Kept]:
    """Yield all records below the folder `results`.

    Old records do not name their scale and their text. For these, `known` has both, by the name of
    the record's folder.
    """
    for path in sorted(results.rglob("*.claims.json")):
        if path.parent.name == EARLIER:
            continue
        judged = json.loads(path.read_text("utf-8"))
        earlier = path.parent / EARLIER / path.name
        stem = path.name.removesuffix(".claims.json")
        about = path.with_name(f"{stem}.json")
        trials = path.with_name(f"{stem}_trials.csv")

        folder = results / path.relative_to(results).parts[0]
        planned = json.loads(about.read_text("utf-8")) if about.exists() else {}
        setting = planned.get("experiment") or known[folder.name]
        pictures = (path.with_name(f"{stem}.png"), folder / "figures" / f"{stem}.png")

        # Remove the overrides that follow the experiment's name after a "-".
        experiment = judged["experiment"].partition("-")[0]
        yield Kept(
            folder,
            experiment,
            setting["scale"],
            setting["text"],
            judged["metric"],
            verdicts_of(judged),
            verdicts_of(json.loads(earlier.read_text("utf-8")))
            if earlier.exists()
            else [],
            read_rows(path.with_name(f"{stem}.csv")),
            read_rows(trials) if trials.exists() else [],
            planned.get("provenance", {}),
            next((one for one in pictures if one.exists()), None),
        )


def verdicts_of(judged: Mapping[str, Any]) -> list[Verdict]:
    """Return the verdicts in the content of a claims.json file."""
    return [
        Verdict(
            one["claim"],
            Decision(one["verdict"]),
            one["sentence"],
            one["numbers"],
            # The oldest records name a single metric instead of one for each verdict.
            one.get("measure") or label(judged["metric"]),
        )
        for one in judged["verdicts"]
    ]


def done(rows: Iterable[Row]) -> dict[str, Row]:
    """Map the id of each run that is done to one of its rows."""
    return {row["run"]: row for row in rows if row["state"] == "done"}


def hours(runs: Mapping[str, Row]) -> float:
    """Return the device hours of these runs."""
    return sum(float(row["seconds"] or 0) for row in runs.values()) / 3600


def families(found: Sequence[Kept]) -> str:
    """Return two sentences about families: how many there are, and how many wrong ones to expect.

    The claims of one experiment on one text form a family. It is wrong if any verdict is wrong.
    """
    errors = [
        one.verdicts[0].numbers.get("error", ERROR) for one in found if one.verdicts
    ]
    return (
        f"The tables hold {len(errors)} families of claims, one for each experiment and text. At "
        f"their error rates,\nat most {sum(errors):.2g} families are expected to have a wrong "
        "verdict."
    )


def claims(found: Sequence[Kept]) -> str:
    """Return a section with a table of claims for each scale, the largest scale first."""
    by_scale = {
        scale: [one for one in found if one.scale == scale]
        for scale in reversed(SCALES)
    }
    return "\n\n".join(
        f"### At {scale} scale\n\n{claims_at(those)}"
        for scale, those in by_scale.items()
        if those
    )


def claims_at(found: Iterable[Kept]) -> str:
    """Return a table with a row for each claim and measure, and a column for each text."""
    # This import is here because it imports numpy, which would make --help slow.
    from sweeper.results.statistics.sequential import FIRST

    cells: dict[tuple[str, str, str], dict[str, list[str]]] = {}
    for one in found:
        for verdict in one.verdicts:
            more = price(verdict) if one.counts[0] >= FIRST else ""
            row = cells.setdefault((one.experiment, verdict.claim, verdict.measure), {})
            row.setdefault(one.column, []).append(
                f"{answer(verdict)}; {one.seeds} seeds{more}"
            )
    texts = sorted({text for row in cells.values() for text in row}, reverse=True)
    rows = [
        (
            name,
            f"`{claim}`",
            measure,
            *("<br>".join(row.get(text, [])) for text in texts),
        )
        for (name, claim, measure), row in cells.items()
    ]
    unnamed = "other text" if any(texts) else "answer"
    head = ("experiment", "claim", "measured by", *(text or unnamed for text in texts))
    return table(head, rows)


def answer(verdict: Verdict) -> str:
    """Return a verdict and its main contrast in words. Unless undecided, the verdict is bold."""
    undecided = verdict.verdict is Decision.UNDECIDED
    effect = (
        verdict.effect if "first" in verdict.numbers else "judged by an earlier rule"
    )
    return f"{verdict.label if undecided else f'**{verdict.label}**'}: {effect}"


def price(verdict: Verdict) -> str:
    """Return the expected cost of a decision in words.

    Return "" if the cost is unknown, or if no contrast has an interval.
    """
    cost = verdict.numbers.get("price", {})
    known = any(one["low"] is not None for one in verdict.numbers.get("contrasts", ()))
    if not known or not cost.get("seeds"):
        return ""
    seeds = int(float(f"{cost['seeds']:.2g}"))
    took = f", {cost['hours']:.2g} device hours" if cost["hours"] is not None else ""
    return f"; to decide: about {seeds:,} seeds a point{took}"


def changed(found: Iterable[Kept], reasons: Mapping[str, str]) -> str:
    """Return a table of the verdicts that differ from those of the replaced record.

    `reasons` explains the differences, by "experiment.claim" or "experiment.claim, scale, text".
    """
    rows = []
    for one in found:
        today = {(verdict.claim, verdict.measure): verdict for verdict in one.verdicts}
        for before in one.before:
            now = today.get((before.claim, before.measure))
            if now is None or now.verdict is not before.verdict:
                what = answer(now) if now else "not asked"
                where = f"{one.scale}, {one.column}".removesuffix(", ")
                key = f"{one.experiment}.{before.claim}"
                why = reasons.get(f"{key}, {where}") or reasons.get(key, "")
                place = (one.experiment, f"`{before.claim}`", where)
                rows.append((*place, answer(before), what, why))
    head = ("experiment", "claim", "scale and text", "before", "now", "why")
    return (
        table(head, rows)
        if rows
        else "No verdict differs from that of the replaced record."
    )


def settings(found: Iterable[Kept]) -> str:
    """Return a table of the trained experiments: scale, text, runs, tokens, hours, devices."""
    head = "kept in,scale,text,experiment,runs,tokens,device hours,rates,rounds,device,code"
    rows = []
    for one in sorted(
        found, key=lambda one: (SCALES.index(one.scale), one.folder.name)
    ):
        runs = one.runs.values()
        tokens = sum(float(row["tokens_seen"] or 0) for row in runs)
        decides = DECIDES in one.provenance.get("command", ())

        name = one.folder.name
        row = [
            f"[{name}]({name}/README.md)",
            one.scale,
            one.text,
            one.experiment,
            f"{len(runs)}",
        ]
        row += [f"{tokens / 1e6:.1f}M", f"{hours(one.runs):.2f}"]
        row.append(f"{hours(done(one.trials)):.2f}" if one.trials else "")
        row.append(str(len(one.provenance.get("rounds", ())) + 1) if decides else "")
        for column in ("device", "code"):
            row.append(
                ", ".join(sorted({each[column] for each in runs if each.get(column)}))
            )
        rows.append(row)
    return table(head.split(","), rows)


if __name__ == "__main__":
    main()
