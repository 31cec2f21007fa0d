"""Verdicts on scores from anywhere: a CSV with a row for each arm and seed.

Each arm is compared with the baseline by the rule that judges the claims of a sweep
(statistics/blocks.py). All arms and metrics of a file share the chance of a wrong verdict.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sweeper.results.decision import Question
from sweeper.results.design import Contrast
from sweeper.results.evidence import Evidence
from sweeper.results.judge import verdicts_on
from sweeper.results.points import Point
from sweeper.results.statistics.blocks import share_seeds
from sweeper.results.table import Table, read_table
from sweeper.results.verdict import Decision, Verdict
from sweeper.store.errors import UserError, invalid_value
from sweeper.store.numbers import plural

BETTER = {"lower": -1, "higher": 1}
MOST_ROWS = 10_000
MOST_SEEDS = 200  # of an arm; the rule judges after each of them
_COSTS = {"flops": "FLOPs", "seconds": "seconds"}


def judge_table(path: Path) -> list[Verdict]:
    """Return the verdicts on the claims of a table that a sweep wrote.

    Its description, `<experiment>.json`, stands beside it.
    """
    if not path.with_suffix(".json").is_file():
        raise UserError(
            f"{path} does not say whether lower scores are better; give --better lower or "
            "--better higher."
        )
    table = read_table(path)
    if not table.experiment.get("claims"):
        raise UserError(f"{path}: its experiment has no claims to judge.")
    return verdicts_on(table)


def judge_scores(
    scores: pd.DataFrame,
    *,
    better: str,
    margin: str | None = None,
    pair: str = "seed",
    baseline: str | None = None,
    history: pd.DataFrame | None = None,
) -> list[Verdict]:
    """Return a verdict for each metric and each arm but the baseline.

    The arguments are those of `headroom_attention.judge`, whose docstring describes them.

    Raises:
        UserError: a column is missing, or a cell cannot be judged.
    """
    for frame in (scores, history):
        if not isinstance(frame, pd.DataFrame | None):
            raise UserError(
                "scores: expected a pandas DataFrame with a row for each run."
            )
    margins = _margins(margin)
    checked = _checked(scores, pair)
    earlier = _earlier(history, pair)
    if history is not None and not set(earlier["metric"]) & set(checked["metric"]):
        raise UserError("The history has no row of a metric that the scores have.")
    questions, additions = [], []
    for metric, rows in checked.groupby("metric", sort=False):
        arms = list(dict.fromkeys(rows["arm"]))
        first = _baseline(arms, baseline)
        with_history = pd.concat([rows, earlier[earlier["metric"] == metric]])
        direction = _direction(better, str(metric))
        evidence = Evidence(_table(with_history, margins), "value", better=direction)
        points = {point.arm: point for point in evidence.points}
        for arm in arms:
            if arm != first:
                weights = [(1.0, points[arm]), (-1.0, points[first])]
                statement = Contrast(f"arm {arm} over {first}", weights)
                questions.append(Question(arm, str(metric), statement, evidence))
                rests_on = _pairs(evidence, points[arm], points[first], pair)
                additions.append(rests_on + _cost(rows, arm, first))
    verdicts = [replace(one, claims=len(questions)).verdict() for one in questions]
    return [
        replace(verdict, sentence=verdict.sentence + addition)
        for verdict, addition in zip(verdicts, additions, strict=True)
    ]


def _direction(better: str, metric: str) -> int:
    """Return -1 if lower values of a metric are better, 1 if higher ones are."""
    words = better
    if "=" in better:
        by_metric = dict(
            part.strip().split("=", 1) for part in better.split(",") if "=" in part
        )
        words = by_metric.get(metric, "")
    if words not in BETTER:
        expected = f"lower or higher for {metric}"
        remedy = "for example --better lower, or --better loss=lower,accuracy=higher"
        raise invalid_value("--better", better, expected, remedy)
    return BETTER[words]


def _pairs(evidence: Evidence, one: Point, other: Point, pair: str) -> str:
    """Return in words how many rows a comparison rests on."""
    own, others = (
        ~np.isnan(evidence.values[evidence.place(point)]) for point in (one, other)
    )
    if not share_seeds(own, others):
        sizes = f"{own.sum()} and {others.sum()} rows"
        return f" The arms have {sizes}, compared without pairs by {pair}."
    words = f" It rests on {plural(int((own & others).sum()), 'pair')}."
    if alone := int((own ^ others).sum()):
        verbs = "has no partner and is" if alone == 1 else "have no partner and are"
        words += f" {plural(alone, 'row')} {verbs} not used."
    return words


def _baseline(arms: Sequence[str], named: str | None) -> str:
    """Return the arm that the others are compared with."""
    if named is not None and named not in arms:
        expected = f"an arm of the scores ({', '.join(arms[:20])})"
        raise invalid_value("--baseline", named, expected, "correct it")
    if len(arms) < 2:
        raise UserError(
            f"The scores have one arm, {arms[0]}; a verdict compares two or more. Name the arms in "
            "the column `arm`."
        )
    return arms[0] if named is None else named


def exit_code(verdicts: Sequence[Verdict]) -> int:
    """Return 3 if a verdict is undecided, else 1 if none is supported, else 0."""
    decisions = {verdict.verdict for verdict in verdicts}
    if Decision.UNDECIDED in decisions:
        return 3
    return 0 if Decision.SUPPORTED in decisions else 1


def read_scores(path: Path) -> pd.DataFrame:
    """Return the cells of a CSV as text; UserError if it has too many rows to be judged."""
    return _bounded(_cells(path))


def _cells(path: Path) -> pd.DataFrame:
    try:
        return pd.read_csv(path, dtype=str, keep_default_na=False)
    except OSError as error:
        raise UserError(
            f"{path} cannot be read ({error.strerror}); correct the path."
        ) from None
    except (ValueError, pd.errors.ParserError) as error:
        reason = " ".join(str(error).split())
        raise UserError(f"{path} is no CSV with a line of names ({reason}).") from None


def _bounded(frame: pd.DataFrame) -> pd.DataFrame:
    if len(frame) > MOST_ROWS:
        raise UserError(
            f"The scores have more than {MOST_ROWS:,} rows; give one value for each arm and seed."
        )
    return frame


def _checked(frame: pd.DataFrame, pair: str) -> pd.DataFrame:
    """Return columns arm, seed, value, metric, flops and seconds, each of the right type."""
    _bounded(frame)
    names = [name for name in ("arm", "point") if name in frame]
    missing = [name for name in (pair, "value") if name not in frame]
    if not names:
        missing = ["arm", *missing]
    if missing:
        has = ", ".join(map(str, frame.columns[:20]))
        raise UserError(
            f"The scores lack the column {', '.join(missing)} (they have {has}); expected arm, "
            f"{pair} and value, or another column in place of {pair} by --pair."
        )
    if frame.empty:
        raise UserError("The scores have no rows; expected one for each arm and seed.")
    arms = frame[names].astype(str).agg(" ".join, axis=1).str.strip()
    found = pd.DataFrame({"arm": arms, "pair": frame[pair].astype(str)})
    found["metric"] = frame["metric"].astype(str) if "metric" in frame else "value"
    for column in ("value", *(cost for cost in _COSTS if cost in frame)):
        numbers = pd.to_numeric(frame[column], errors="coerce")
        wrong = ~numbers.map(math.isfinite)
        if wrong.any():
            line = int(wrong.to_numpy().argmax())
            words = (
                f"{column}={frame[column].iloc[line]!r} in row {line + 1} of the scores"
            )
            raise UserError(
                f"{words}: expected a finite number. Leave out the row of a run that failed, and "
                "say so: a verdict without it may be too favourable."
            )
        found[column] = numbers
    twice = found.duplicated(["arm", "pair", "metric"])
    if twice.any():
        row = found[twice].iloc[0]
        raise UserError(
            f"{row['arm']} has two rows with {pair}={row['pair']}; expected one for each arm, "
            f"{pair} and metric. A column that tells them apart can be called `metric` or `point`."
        )
    most = int(found.groupby(["arm", "metric"]).size().max()) if len(found) else 0
    if most > MOST_SEEDS:
        raise UserError(f"An arm has {most:,} rows; at most {MOST_SEEDS:,} are judged.")
    return found


def _earlier(history: pd.DataFrame | None, pair: str) -> pd.DataFrame:
    """Return earlier scores under names that no arm or seed of today has."""
    if history is None:
        return pd.DataFrame({"arm": [], "pair": [], "metric": [], "value": []})
    if "comparison" in history and pair in history:
        comparison = history["comparison"].astype(str)
        history = history.assign(**{pair: comparison + " " + history[pair].astype(str)})
        arms = [name for name in ("arm", "point") if name in history][:1]
        history = history.assign(
            **{name: comparison + " " + history[name].astype(str) for name in arms}
        )
    found = _checked(history, pair)
    found["arm"] = "before " + found["arm"]
    found["pair"] = "before " + found["pair"]
    return found


def _margins(text: str | None) -> Mapping[str, Any]:
    """Return the margin as experiments have it, by metric; empty for None."""
    if text is None:
        return {}
    try:
        size = float(text.strip().removesuffix("%"))
    except ValueError:
        size = math.nan
    if not 0 < size < math.inf:
        expected = "a number above 0 in the unit of the scores, or per cent"
        raise invalid_value("--margin", text, expected, "for example --margin 1%")
    return {"value": {"size": text.strip(), "reason": "the margin that was asked for."}}


def _table(rows: pd.DataFrame, margin: Mapping[str, Any]) -> Table:
    """Return scores as a table whose runs are its rows."""
    seeds = {name: place for place, name in enumerate(_in_order(rows["pair"]))}
    cells = [
        {
            "arm": arm,
            "point": "",
            "seed": seeds[pair],
            "run": f"{arm} {pair}",
            "state": "done",
            "value": value,
        }
        for arm, pair, value in zip(
            rows["arm"], rows["pair"], rows["value"], strict=True
        )
    ]
    arms = {
        arm: {"label": arm, "metric": "value"} for arm in dict.fromkeys(rows["arm"])
    }
    experiment = {"metric": "value", "arms": arms, "margin": margin}
    return Table("scores", experiment, {}, {}, list(cells[0]), cells)


def _in_order(pairs: pd.Series) -> list[str]:
    """Return the distinct names of seeds, numbers by size.

    The order of rows must not count: the first seeds are judged before the later ones.
    """

    def key(name: str) -> tuple[bool, float, str]:
        number = pd.to_numeric(name, errors="coerce")
        return bool(math.isnan(number)), 0.0 if math.isnan(number) else number, name

    return sorted(set(pairs), key=key)


def _cost(rows: pd.DataFrame, arm: str, baseline: str) -> str:
    """Return the ratios of costs to the baseline's in words; empty without such columns."""
    means = rows.groupby("arm")[[cost for cost in _COSTS if cost in rows]].mean()
    ratios = (means.loc[arm] / means.loc[baseline]).items()
    words = [
        f"{ratio:.2f} times the {_COSTS[str(cost)]}"
        for cost, ratio in ratios
        if math.isfinite(ratio)
    ]
    return f" It takes {' and '.join(words)} of {baseline}." if words else ""
