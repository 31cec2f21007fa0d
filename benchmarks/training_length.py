"""Write the tables of docs/results/training_length/README.md from its runs.csv."""

from pathlib import Path

import pandas as pd

import headroom_attention as headroom
from benchmarks.measure import MADE, TEXTS, in_per_cent, table

METRIC = "test/perplexity"
MARGIN = "1%"  # the margin of all claims about language models
ARMS = {"large": "2 heads of 32", "small": "32 heads of 2", "more": "16 heads of 32"}
START_STEPS = 6000
STARTS = {"matrix": "whole matrix", "head": "per head"}


def with_tables(text: str, folder: Path) -> str:
    """Return the page with new tables: one by length of training, one by initialisation."""
    runs = pd.read_csv(folder / "runs.csv")
    before, _, rest = text.partition(MADE)
    between, _, rest = rest.partition("\n\n")[2].partition(MADE)
    after = rest.partition("\n\n")[2]
    return (
        f"{before}{MADE}{by_length(runs).rstrip()}\n\n"
        f"{between}{MADE}{by_start(runs).rstrip()}\n\n{after}"
    )


def by_length(runs: pd.DataFrame) -> str:
    """Return a table of mean perplexities by text and number of steps, with a trigram model's."""
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
    """Return a table of the gain from 16 heads instead of 2, by initialisation."""
    rows = []
    at_length = runs[runs["trainer.steps"] == START_STEPS]
    for name in TEXTS:
        for start, words in STARTS.items():
            same_text = at_length["text"] == name
            same_start = at_length["model.attention.glorot"] == start
            own = at_length[same_text & same_start]
            if own.empty:
                continue
            large, more = _scores(own, "large"), _scores(own, "more")
            rows.append((name, words, _list(large), _list(more), _difference(own)))
    head = ("text", "start", ARMS["large"], ARMS["more"], "16 heads better by")
    return table(head, rows)


def _scores(runs: pd.DataFrame, arm: str) -> pd.Series:
    """Return the perplexities of an arm by seed."""
    return runs[runs["arm"] == arm].set_index("seed")[METRIC].sort_index()


def _beside(own: pd.Series, others: pd.Series) -> tuple[str, str]:
    """Return the mean of `own`, and by how many per cent it exceeds the mean of `others`.

    Only the seeds of `own` count.
    """
    if own.empty:
        return "not trained", ""
    ratio = own.mean() / others[own.index].mean()
    return f"{own.mean():.1f}", f"{100 * (ratio - 1):+.1f} %"


def _list(scores: pd.Series) -> str:
    return ", ".join(f"{score:.1f}" for score in scores)


def _difference(runs: pd.DataFrame) -> str:
    """Return by how many per cent 16 heads are better than 2, according to `headroom.judge`."""
    scores = runs[runs["arm"].isin(["large", "more"])].rename(columns={METRIC: "value"})
    [verdict] = headroom.judge(
        scores[["arm", "seed", "value"]],
        better="lower",
        margin=MARGIN,
        baseline="large",
    )
    [contrast] = verdict.numbers["contrasts"]
    return in_per_cent(contrast["value"], contrast["low"], contrast["high"])
