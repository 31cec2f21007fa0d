"""Write the tables of docs/results/training_length/README.md from its runs.csv."""

from pathlib import Path

import numpy as np
import pandas as pd

import headroom_attention as headroom
from benchmarks.measure import TEXTS, in_per_cent, replace_tables, table

METRIC = "test/perplexity"
MARGIN = "1%"  # the margin of all claims about language models
ARMS = {"large": "2 heads of 32", "small": "32 heads of 2", "more": "16 heads of 32"}
STARTS = {"matrix": "whole matrix", "head": "per head"}
# Models with as many parameters as 16 heads of 32.
SPENT = {
    "wide": "8 heads of 8, wider feed-forward layer",
    "embedding": "8 heads of 16, d = 128",
}
# Compare only models trained for at least this many steps. Their perplexity is well below a bigram
# model's.
LONG = 6000
# `headroom.judge` needs at least this many seeds for an interval.
FEWEST_SEEDS = 3


def with_tables(text: str, folder: Path) -> str:
    """Return the page with new tables: by length of training, initialisation, and model size."""
    runs = pd.read_csv(folder / "runs.csv")
    tables = (of_runs(runs) for of_runs in (by_length, by_start, by_spending))
    return replace_tables(text, tables)


def by_length(runs: pd.DataFrame) -> str:
    """Return a table of mean perplexities by text and number of steps, beside a trigram model."""
    rows = []
    default = runs[runs["model.attention.glorot"] == "matrix"]
    for name in TEXTS:
        of_text = default[default["text"] == name]
        for steps, own in of_text.groupby("trainer.steps"):
            large = _scores(own, "large")
            trigram = own["test/trigram_perplexity"].iloc[0]
            rows.append(
                (
                    *(name, f"{steps:,}", str(len(large)), f"{large.mean():.1f}"),
                    *_beside(_scores(own, "small"), large),
                    *_beside(_scores(own, "more"), large),
                    f"{trigram:.1f}",
                )
            )
    head = (
        *("text", "steps", "seeds", ARMS["large"], ARMS["small"], "difference"),
        *(ARMS["more"], "difference", "trigram"),
    )
    return table(head, rows)


def by_start(runs: pd.DataFrame) -> str:
    """Return a table of the perplexities of all seeds, by text, steps and initialisation."""
    rows = []
    compared = runs[runs["arm"].isin(ARMS) & (runs["trainer.steps"] >= LONG)]
    for name in TEXTS:
        of_text = compared[compared["text"] == name]
        for steps, of_length in of_text.groupby("trainer.steps"):
            for start, words in STARTS.items():
                own = of_length[of_length["model.attention.glorot"] == start]
                if own.empty:
                    continue
                scores = [_list(_scores(own, arm)) for arm in ARMS]
                pair = own[own["arm"] != "small"]
                rows.append(
                    (name, f"{steps:,}", words, *scores, _difference(pair, "large"))
                )
    head = ("text", "steps", "start", *ARMS.values(), "16 heads better than 2 by")
    return table(head, rows)


def by_spending(runs: pd.DataFrame) -> str:
    """Return a table of the models in SPENT, and how much better than 16 heads of 32 they are."""
    rows = []
    per_head = runs[runs["model.attention.glorot"] == "head"]
    for name in TEXTS:
        of_text = per_head[per_head["text"] == name]
        for arm, words in SPENT.items():
            for steps, own in of_text.groupby("trainer.steps"):
                spent = _scores(own, arm)
                if spent.empty:
                    continue
                pair = own[
                    own["arm"].isin([arm, "more"]) & own["seed"].isin(spent.index)
                ]
                scores = (_list(spent), _list(_scores(pair, "more")))
                gain = _difference(pair, "more")
                rows.append((name, words, f"{steps:,}", *scores, gain))
    head = ("text", "model", "steps", "perplexity", ARMS["more"], "better by")
    return table(head, rows)


def _scores(runs: pd.DataFrame, arm: str) -> pd.Series:
    """Return the perplexities of an arm by seed."""
    return runs[runs["arm"] == arm].set_index("seed")[METRIC].sort_index()


def _beside(own: pd.Series, others: pd.Series) -> tuple[str, str]:
    """Return the mean of `own`, and by how many per cent it exceeds the mean of `others`.

    The mean of `others` is over the seeds of `own`.
    """
    if own.empty:
        return "not trained", ""
    ratio = own.mean() / others[own.index].mean()
    return f"{own.mean():.1f}", f"{100 * (ratio - 1):+.1f} %"


def _list(scores: pd.Series) -> str:
    return ", ".join(f"{score:.1f}" for score in scores) or "not trained"


def _difference(runs: pd.DataFrame, baseline: str) -> str:
    """Return by how many per cent the other arm of `runs` is better than the arm `baseline`.

    From three seeds on, the text includes the interval of `headroom.judge`.
    """
    scores = runs.rename(columns={METRIC: "value"})[["arm", "seed", "value"]]
    seeds = scores["seed"].nunique()
    if seeds < FEWEST_SEEDS:
        logs = np.log(scores.pivot(index="seed", columns="arm", values="value"))
        [other] = logs.columns.drop(baseline)
        gain = np.expm1((logs[baseline] - logs[other]).mean())
        return f"{100 * gain:.1f} %, {('one seed', 'two seeds')[seeds - 1]}"
    [verdict] = headroom.judge(scores, better="lower", margin=MARGIN, baseline=baseline)
    [contrast] = verdict.numbers["contrasts"]
    return in_per_cent(contrast["value"], contrast["low"], contrast["high"])
