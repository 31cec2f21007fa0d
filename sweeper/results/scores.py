"""Judge the scores that any program wrote to a CSV file with a row for each arm and seed.

Each arm is compared with a baseline arm, by the rule that also judges the claims of a sweep
(statistics/blocks.py). All comparisons of a file share the probability of a wrong verdict.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from sweeper.results.decision import Question
from sweeper.results.design import over
from sweeper.results.evidence import Evidence
from sweeper.results.points import Point
from sweeper.results.statistics.blocks import share_seeds
from sweeper.results.table import Data, Table, read_table
from sweeper.results.verdict import Decision, Verdict
from sweeper.store.errors import UserError, invalid_value
from sweeper.store.numbers import plural

BETTER = {"lower": -1, "higher": 1}
MOST_ROWS = 10_000
# Each seed adds an interim analysis, so more seeds would take too long to judge.
MOST_SEEDS = 200
# The optional cost columns of a file, and their names in a table.
_COSTS = {"flops": "training_flops", "seconds": "seconds"}


def table_with_claims(path: Path) -> Table:
    """Read the .csv of a table that a sweep wrote, to judge the claims of its experiment.

    Raise UserError if the experiment has no claims, or if the folder of the .csv lacks the
    description of the table, `<experiment>.json`.
    """
    if not path.is_file():
        raise UserError(f"There is no file {path}; correct the path.")
    if not path.with_suffix(".json").is_file():
        raise UserError(
            f"{path} does not say whether lower scores are better; add --better lower or "
            "--better higher."
        )
    table = read_table(path)
    if not table.experiment.get("claims"):
        raise UserError(
            f"The experiment of {path} has no claims; add `claims` to the experiment's yaml, and "
            "repeat the sweep."
        )
    return table


def judge_scores(
    scores: pd.DataFrame,
    *,
    better: str,
    margin: str | float | None = None,
    pair: str = "seed",
    baseline: str | None = None,
    history: pd.DataFrame | None = None,
) -> list[Verdict]:
    """Return a verdict for each metric and each arm except the baseline.

    The docstring of `headroom_attention.judge` describes the arguments.

    Raises:
        UserError: a column is missing, or a cell cannot be judged.
    """
    experiment = {"metric": "value", "margin": _margins(margin)}
    checked = _checked(scores, pair)
    every = checked
    if history is not None:
        earlier = _earlier(history, pair)
        if not set(earlier["metric"]) & set(checked["metric"]):
            raise UserError(
                "The history and the scores have no metric in common; correct the column `metric` "
                "of one of them."
            )
        _check_apart(checked, earlier)
        every = pd.concat([checked, earlier])

    measured = checked[["metric", "arm"]].drop_duplicates()
    claims = len(measured) - measured["metric"].nunique()
    verdicts = []
    for metric in checked["metric"].unique():
        table = _table(every[every["metric"] == metric], experiment)
        evidence = Evidence(table, "value", better=_direction(better, metric))
        points = {point.arm: point for point in evidence.points}
        # By default, the baseline is the first arm in the file that has values of the metric.
        own = set(measured.loc[measured["metric"] == metric, "arm"])
        arms = [arm for arm in checked["arm"].unique() if arm in own]
        first = _baseline(arms, baseline)
        for arm in arms:
            if arm == first:
                continue
            contrast = over(points[arm], points[first], f"arm {arm} over {first}")
            verdict = Question(arm, metric, contrast, evidence, claims).verdict()
            pairs = _pairs(evidence, points[arm], points[first], pair)
            verdicts.append(replace(verdict, sentence=verdict.sentence + pairs))
    return verdicts


def exit_code(verdicts: Sequence[Verdict]) -> int:
    """Return the exit code of `python -m sweeper judge`.

    Returns:
        3 if at least one verdict is undecided. Otherwise, 0 if at least one claim is supported, and
        1 if none is.
    """
    decisions = {verdict.verdict for verdict in verdicts}
    if Decision.UNDECIDED in decisions:
        return 3
    return 0 if Decision.SUPPORTED in decisions else 1


def read_scores(path: Path) -> pd.DataFrame:
    """Return the cells of a CSV as strings. Read at most MOST_ROWS + 1 rows."""
    try:
        most = MOST_ROWS + 1
        scores = pd.read_csv(path, dtype=str, keep_default_na=False, nrows=most)
        # If rows have more cells than the header, pandas takes the first cells as an index. Refuse
        # such a file below.
        if scores.empty or isinstance(scores.index, pd.RangeIndex):
            return scores
        why = (
            "has rows with more cells than its header; name every column in the header"
        )
    except OSError as error:
        why = f"cannot be read ({error.strerror}); correct the path"
    except ValueError as error:
        problem = " ".join(str(error).split())
        why = (
            f"is not a CSV ({problem}); begin it with a header, such as arm,seed,value"
        )
    raise UserError(f"{path} {why}.")


def _checked(frame: pd.DataFrame, pair: str) -> pd.DataFrame:
    """Return the columns arm, pair, metric and value, and those of the costs, with correct types.

    The column `pair` has the names of the seeds. Raise UserError if a column is missing or a cell
    cannot be judged.

    Args:
        frame: the scores as the user passed them.
        pair: the column that pairs rows, usually `seed`.
    """
    _check_frame(frame, pair)
    found = pd.DataFrame({"arm": _arms(frame), "pair": _names_of_seeds(frame[pair])})
    found["metric"] = frame["metric"].astype(str) if "metric" in frame else "value"
    for column in ("value", *(cost for cost in _COSTS if cost in frame)):
        found[column] = _numbers(frame[column], positive=column in _COSTS)
    _check_rows(found, pair)
    return found


def _check_frame(frame: pd.DataFrame, pair: str) -> None:
    """Raise UserError if the scores are no DataFrame, lack a column, or have no or many rows."""
    if not isinstance(frame, pd.DataFrame):
        raise UserError(
            f"The scores are a {type(frame).__name__}; pass a pandas DataFrame with a row for each "
            "arm and seed."
        )
    if len(frame) > MOST_ROWS:
        raise UserError(
            f"The scores have more than {MOST_ROWS:,} rows; keep one row for each arm and seed."
        )
    missing = [name for name in (*_naming(frame), pair, "value") if name not in frame]
    if missing:
        lacks, has = (
            ", ".join(map(repr, some)) for some in (missing, frame.columns[:20])
        )
        raise UserError(
            f"The scores need the columns 'arm', '{pair}' and 'value', but lack {lacks}. They have "
            f"{has}. Rename columns, or use --pair to name the column that pairs rows."
        )
    if frame.empty:
        raise UserError("The scores have no rows; expected one for each arm and seed.")


def _naming(frame: pd.DataFrame) -> list[str]:
    """Return the columns that together name an arm: arm, point, or both."""
    return [name for name in ("arm", "point") if name in frame] or ["arm"]


def _arms(frame: pd.DataFrame) -> pd.Series:
    """Return the name of each row's arm. If the scores have a column `point`, it is "ARM POINT"."""
    parts = frame[_naming(frame)].astype(str).apply(lambda column: column.str.strip())
    arms = parts.agg(" ".join, axis=1).str.strip()
    if arms.nunique() < len(parts.drop_duplicates()):
        raise UserError(
            "Two combinations of arm and point have the same name, because Headroom joins arm and "
            "point by a space. Rename an arm or a point."
        )
    return arms


def _numbers(column: pd.Series, *, positive: bool) -> pd.Series:
    """Return the cells of a column as numbers. Raise UserError if one is not finite.

    With `positive`, also raise it for a number of 0 or less.
    """
    numbers = pd.to_numeric(column, errors="coerce").astype(float)
    cells = numbers.to_numpy()
    wrong = ~np.isfinite(cells) | ((cells <= 0) & positive)
    if wrong.any():
        row = int(wrong.argmax())
        wanted = "a finite number above 0" if positive else "a finite number"
        raise UserError(
            f"{column.name}={column.tolist()[row]!r} in row {row + 1} of the scores: expected "
            f"{wanted}. Leave out the rows of failed runs. Say so in your report, since the "
            "verdicts may then be too favourable."
        )
    return numbers


def _check_rows(scores: pd.DataFrame, pair: str) -> None:
    """Raise UserError if an arm has two rows for a seed, or more than MOST_SEEDS rows."""
    twice = scores[scores.duplicated(["arm", "pair", "metric"])]
    if not twice.empty:
        arm, value = twice.iloc[0][["arm", "pair"]]
        raise UserError(
            f"Arm {arm} has two rows with {pair}={value}; expected one for each arm, point, {pair} "
            "and metric. If another column distinguishes the rows, call that column `metric` or "
            "`point`."
        )
    most = scores.groupby(["arm", "metric"]).size().max()
    if most > MOST_SEEDS:
        raise UserError(
            f"An arm has {most:,} rows; expected at most {MOST_SEEDS:,}, one for each seed. Keep "
            "only the final score of each seed, or fewer seeds."
        )


def _names_of_seeds(column: pd.Series) -> pd.Series:
    """Return seeds as strings. Equal numbers, such as "0" and "0.0", become the same string."""
    texts = column.astype(str).str.strip()
    numbers = pd.to_numeric(texts, errors="coerce").astype(float)
    return numbers.map("{:.15g}".format).where(numbers.abs() < 1e15, texts)


def _check_apart(scores: pd.DataFrame, earlier: pd.DataFrame) -> None:
    """Raise UserError if most scores of an arm are also in the history, and would count twice.

    Args:
        scores: the scores to judge, checked.
        earlier: the scores of the history, as `_earlier` returns them.
    """
    # Remove the prefix that `_earlier` has added.
    seeds = _names_of_seeds(earlier["pair"].str.rpartition(" ")[2])
    twice = scores.merge(
        earlier.assign(pair=seeds),
        on=["metric", "pair", "value"],
        suffixes=("", "_of_history"),
    )
    number = scores.groupby(["metric", "arm"]).size()
    for (metric, arm, _), rows in twice.groupby(["metric", "arm", "arm_of_history"]):
        if 2 * len(rows) > number[metric, arm]:
            raise UserError(
                f"The history also has {plural(len(rows), 'score')} of the arm {arm}, which would "
                "count twice; remove them from the history."
            )


def _earlier(history: pd.DataFrame, pair: str) -> pd.DataFrame:
    """Return the scores of the history, checked.

    Arms and seeds get the prefix "before ", so that their names differ from those in the scores to
    judge. If the history has a column `comparison`, its value becomes part of the prefix.
    """
    comparison = ""
    if "comparison" in history:
        comparison = history["comparison"].astype(str)
    named = {
        name: comparison + " " + history[name].astype(str)
        for name in ("arm" if "arm" in history else "point", pair)
        if name in history
    }
    found = _checked(history.assign(**named), pair)
    return found.assign(arm="before " + found["arm"], pair="before " + found["pair"])


def _margins(margin: str | float | None) -> Data:
    """Return the value of --margin as the key `margin` of an experiment; {} if it is None."""
    if margin is None:
        return {}
    text = str(margin)
    size = pd.to_numeric(text.strip().removesuffix("%"), errors="coerce")
    if not 0 < size < math.inf:
        expected = "a number above 0, in the unit of the scores or in per cent"
        raise invalid_value("--margin", text, expected, "write for example --margin 1%")
    return {"value": {"size": text.strip(), "reason": "the requested margin."}}


def _direction(better: str, metric: str) -> int:
    """Return -1 if lower values of a metric are better, and 1 if higher ones are.

    `better` is "lower", "higher", or a list such as "loss=lower,accuracy=higher".
    """
    words = better
    if "=" in better:
        parts = [part.strip().partition("=") for part in better.split(",")]
        words = {name: word for name, _, word in parts}.get(metric, "")
    if words not in BETTER:
        expected = f"lower or higher for {metric}"
        remedy = (
            "write for example --better lower, or --better loss=lower,accuracy=higher"
        )
        raise invalid_value("--better", better, expected, remedy)
    return BETTER[words]


def _baseline(arms: Sequence[str], named: str | None) -> str:
    """Return the arm that the others are compared with: `named`, or the first if it is None."""
    if named is not None and named not in arms:
        expected = f"an arm of the scores ({', '.join(arms[:20])})"
        raise invalid_value("--baseline", named, expected, "name one of them")
    if len(arms) < 2:
        raise UserError(
            f"The scores have only one arm, {arms[0]}; a verdict compares at least two. Name the "
            "arms in the column `arm`."
        )
    return named or arms[0]


def _table(rows: pd.DataFrame, experiment: Data) -> Table:
    """Return scores as a table with one run per row.

    Interim analyses add seeds one by one, and their order must not depend on the order of the rows.
    So seeds are sorted by the number in their name, such as the 10 of "seed10", and numbered from
    0.
    """
    names = pd.Series(rows["pair"].unique())
    at_end = pd.to_numeric(names.str.extract(r"(\d+)$")[0])
    sizes = pd.to_numeric(names, errors="coerce").fillna(at_end).fillna(math.inf)
    ordered = [name for _, name in sorted(zip(sizes, names, strict=True))]
    cells = rows.rename(columns=_COSTS).assign(
        point="",
        seed=rows["pair"].map(ordered.index),
        run=rows["arm"] + " " + rows["pair"],
        state="done",
    )
    arms = {arm: {"label": arm} for arm in rows["arm"].unique()}
    columns, records = list(cells), cells.to_dict("records")
    return Table("scores", {**experiment, "arms": arms}, {}, {}, columns, records)


def _pairs(evidence: Evidence, one: Point, other: Point, pair: str) -> str:
    """Return a sentence that says how many rows a comparison uses, and whether it pairs them."""
    own, others = (
        ~np.isnan(evidence.values[evidence.place(point)]) for point in (one, other)
    )
    if not share_seeds(own, others):
        sizes = f"{own.sum()} and {others.sum()} rows"
        return f" The arms have {sizes}; the comparison does not pair them by {pair}."
    words = f" The comparison rests on {plural(int((own & others).sum()), 'pair')}."
    if alone := int((own ^ others).sum()):
        words += (
            f" Rows without a partner of the same {pair} are used only for the spread and the "
            f"costs: {alone}."
        )
    return words
