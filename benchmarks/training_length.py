"""Write the tables and the figure of docs/results/training_length from its table runs.csv."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

import headroom_attention as headroom
from benchmarks.measure import TEXTS, in_per_cent, replace_tables, table
from sweeper.results.layout import (
    FAINT_INK,
    RC,
    Entry,
    Style,
    lay_out,
    panels,
    rendered,
)
from sweeper.results.palette import MARKERS, PALETTE
from sweeper.results.panel import GUIDE, sample

METRIC = "test/perplexity"
MARGIN = "1%"  # the margin of all claims about language models
ARMS = {"large": "2 heads of 32", "small": "32 heads of 2", "more": "16 heads of 32"}
STARTS = {"matrix": "whole matrix", "head": "per head"}
LINES = {"matrix": ":", "head": "-"}  # the line style of the curves, by initialisation
# Models with as many parameters as 16 heads of 32.
SPENT = {
    "wide": "8 heads of 8, wider feed-forward layer",
    "embedding": "8 heads of 16, d = 128",
}
HEAD_SIZES = (4, 8, 32)
# `by_start` compares only models trained for at least this many steps, since their perplexity is
# well below that of a bigram model.
LONG = 6000
NIGHT = 12_000  # the steps of scale `night`
# `headroom.judge` needs at least this many seeds for an interval.
FEWEST_SEEDS = 3


def with_tables(text: str, folder: Path) -> str:
    """Return the text of the page with its four tables replaced by new ones.

    `folder` has the table of all runs, runs.csv.
    """
    runs = pd.read_csv(folder / "runs.csv")
    makers = (by_length, by_start, by_spending, by_head_size)
    return replace_tables(text, (of_runs(runs) for of_runs in makers))


def by_length(runs: pd.DataFrame) -> str:
    """Return a table of mean perplexities by text and number of steps.

    The last column is the perplexity of a trigram model.
    """
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
    long = runs[runs["trainer.steps"] >= LONG]
    for name in TEXTS:
        of_text = long[long["text"] == name]
        for steps, of_length in of_text.groupby("trainer.steps"):
            for start, words in STARTS.items():
                own = of_length[of_length["model.attention.glorot"] == start]
                if own.empty:
                    continue
                scores = [_list(_scores(own, arm)) for arm in ARMS]
                gain = _differences(own, "more")["large"].reverse()
                small = _differences(own, "large").get("small")
                loss = small.reverse() if small else ""
                rows.append((name, f"{steps:,}", words, *scores, gain, loss))
    head = (
        *("text", "steps", "start", *ARMS.values()),
        *("16 heads better than 2 by", "2 heads better than 32 by"),
    )
    return table(head, rows)


def by_spending(runs: pd.DataFrame) -> str:
    """Return a table that compares the models in SPENT with 16 heads of size 32.

    All of them have the same number of parameters.
    """
    rows = []
    per_head = runs[runs["model.attention.glorot"] == "head"]
    for name in TEXTS:
        of_text = per_head[per_head["text"] == name]
        for arm, words in SPENT.items():
            for steps, own in of_text.groupby("trainer.steps"):
                spent = _scores(own, arm)
                if spent.empty:
                    continue
                scores = (_list(spent), _list(_scores(own, "more")))
                gain = _differences(own, "more")[arm]
                rows.append((name, words, f"{steps:,}", *scores, str(gain)))
    head = ("text", "model", "steps", "perplexity", ARMS["more"], "better by")
    return table(head, rows)


def by_head_size(runs: pd.DataFrame) -> str:
    """Return a table of the gain of 16 heads over two, for each head size, after NIGHT steps."""
    rows = []
    night = runs[
        (runs["trainer.steps"] == NIGHT) & (runs["model.attention.glorot"] == "head")
    ]
    for name in TEXTS:
        of_text = night[night["text"] == name]
        for size in HEAD_SIZES:
            names = ("large", "more") if size == 32 else (f"two_{size}", f"many_{size}")
            few, many = (_scores(of_text, arm) for arm in names)
            shared = few.index.intersection(many.index)
            if shared.empty:
                continue
            gain = np.expm1(np.log(few[shared] / many[shared]).mean())
            cells = (
                f"{size}",
                str(len(shared)),
                _list(few[shared]),
                _list(many[shared]),
            )
            rows.append((name, *cells, f"{100 * gain:.1f} %"))
    head = ("text", "head size", "seeds", "2 heads", "16 heads", "16 heads better by")
    return table(head, rows)


def draw(folder: Path) -> bytes:
    """Return a PNG with the perplexity of each arm over the length of training, by text."""
    runs = pd.read_csv(folder / "runs.csv")
    steps = sorted(runs["trainer.steps"].unique())
    with rc_context(RC):
        figure, both = panels(len(TEXTS))
        for axes, name in zip(both, TEXTS, strict=True):
            _draw_text(axes, runs[runs["text"] == name])
            axes.set(title=name, xscale="log", xlabel="training steps")
            axes.set_xlim(steps[0] / 1.2, steps[-1] * 1.2)
            axes.set_xticks(steps, [f"{each / 1000:g}k" for each in steps])
            axes.xaxis.set_minor_locator(NullLocator())
        both[0].set_ylabel("test perplexity per piece")
        lows, highs = zip(*(axes.get_ylim() for axes in both), strict=True)
        for axes in both:
            axes.set_ylim(min(lows), max(highs))

        legend: list[Entry] = [
            sample(words, **_look(place)) for place, words in enumerate(ARMS.values())
        ]
        legend += [
            sample(f"start: {STARTS[start]}", color=FAINT_INK, linestyle=line)
            for start, line in LINES.items()
        ]
        legend.append(sample("trigram model", **GUIDE))
        notes = [
            "Means, and faint marks for single seeds. 2 heads of 32 have as many parameters as 32 "
            "heads of 2, and fewer than 16 heads of 32.",
            "The trigram model is fitted to the rows that a run of that length sees.",
        ]
        lay_out(figure, 180.0, "Head sizes by length of training", legend, notes)
        return rendered(figure, "png")


def _draw_text(axes: Axes, runs: pd.DataFrame) -> None:
    for place, arm in enumerate(ARMS):
        for start, line in LINES.items():
            own = runs[(runs["arm"] == arm) & (runs["model.attention.glorot"] == start)]
            means = own.groupby("trainer.steps")[METRIC].mean()
            axes.plot(means, **{**_look(place), "linestyle": line})
            single = {**_look(place), "linestyle": "none", "alpha": 0.3}
            axes.plot(own["trainer.steps"], own[METRIC], **single)
    trigram = runs.groupby("trainer.steps")["test/trigram_perplexity"].first()
    axes.plot(trigram, zorder=1, **GUIDE)


def _look(place: int) -> Style:
    return {"color": PALETTE[place], "marker": MARKERS[place], "markersize": 3.5}


def _scores(runs: pd.DataFrame, arm: str) -> pd.Series:
    """Return the perplexities of an arm by seed."""
    return runs[runs["arm"] == arm].set_index("seed")[METRIC].sort_index()


def _beside(own: pd.Series, others: pd.Series) -> tuple[str, str]:
    """Return the mean of `own`, and by how many per cent it exceeds the mean of `others`, as text.

    Only the seeds of `own` count for the mean of `others`.
    """
    if own.empty:
        return "not trained", ""
    ratio = own.mean() / others[own.index].mean()
    return f"{own.mean():.1f}", f"{100 * (ratio - 1):+.1f} %"


def _list(scores: pd.Series) -> str:
    return ", ".join(f"{score:.1f}" for score in scores) or "not trained"


class Difference(NamedTuple):
    """The lead of an arm over a baseline arm.

    Attributes:
        ends: the mean log ratio of the perplexities, which is positive if the arm is better, and
            the two ends of its interval. With fewer than FEWEST_SEEDS seeds, only the mean.
        seeds: the number of seeds.
        price: the number of seeds that is expected to decide the comparison. None if unknown.
    """

    ends: tuple[float, ...]
    seeds: int
    price: int | None = None

    def reverse(self) -> str:
        """Return by how many per cent the baseline is better than the arm, as text."""
        value, *interval = (-end for end in self.ends)
        return str(self._replace(ends=(value, *reversed(interval))))

    def __str__(self) -> str:
        if len(self.ends) == 1:
            words = ("one seed", "two seeds")[self.seeds - 1]
            return f"{100 * np.expm1(self.ends[0]):.1f} %, {words}"
        said = in_per_cent(*self.ends)
        return (
            f"{said}; about {self.price} seeds would decide it" if self.price else said
        )


def _differences(runs: pd.DataFrame, baseline: str) -> dict[str, Difference]:
    """Compare each arm of ARMS and SPENT with a baseline arm. Return the differences by arm.

    Arms with enough seeds are judged together. So they share the estimate of the spread, and the
    probability of a wrong verdict. Leave out the other arms of `by_head_size`, whose claims are
    judged in docs/results/night.

    Args:
        runs: the runs of one text, number of steps and initialisation.
        baseline: the name of the baseline arm, in ARMS or SPENT.
    """
    own = runs[runs["arm"].isin([*ARMS, *SPENT])]
    scores = own.rename(columns={METRIC: "value"})[["arm", "seed", "value"]]
    logs = np.log(scores.pivot(index="seed", columns="arm", values="value"))
    found = {}
    for arm in logs.columns.drop(baseline):
        gains = (logs[baseline] - logs[arm]).dropna()
        found[arm] = Difference((gains.mean(),), len(gains))

    judged = [arm for arm, one in found.items() if one.seeds >= FEWEST_SEEDS]
    if judged:
        pooled = scores[scores["arm"].isin([baseline, *judged])]
        options = {"better": "lower", "margin": MARGIN, "baseline": baseline}
        for verdict in headroom.judge(pooled, **options):
            [contrast] = verdict.numbers["contrasts"]
            ends = tuple(contrast[key] for key in ("value", "low", "high"))
            price = (verdict.numbers.get("price") or {}).get("seeds")
            found[verdict.claim] = found[verdict.claim]._replace(ends=ends, price=price)
    return found
