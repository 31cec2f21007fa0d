"""Fit the gain of wide attention and predict it at d = 256: `python -m benchmarks.width`.

It reads the tables of the experiment `width` in docs/results/cpu. In docs/results/width, it writes
prediction.json, the figure gain.png and the tables of README.md. The prediction and the figure are
made from the runs on the novels.
"""

import argparse

if __name__ == "__main__":  # so that --help is answered before the slow imports
    argparse.ArgumentParser(description=__doc__).parse_args()

import hashlib
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from numpy.typing import NDArray
from scipy import stats

import headroom_attention as headroom
from benchmarks.measure import ROOT, TEXTS, replace_tables, table
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

TABLES = ROOT / "docs" / "results" / "cpu"
FOLDER = ROOT / "docs" / "results" / "width"
PREDICTION = FOLDER / "prediction.json"
FIGURE = FOLDER / "gain.png"

METRIC = "test/perplexity"
EMBEDDING = "model.embedding_size"
OTHERS = (0.5, 2.0, 4.0)  # the values of W / d to compare with W / d = 1
CONFIDENCE = 0.95
LARGER = ["experiment=width_larger", "scale=cpu"]  # the models to predict
SEEDS = 3  # the number of seeds of each model to predict


@dataclass(frozen=True)
class Fit:
    """A regression of the logarithm of the perplexity on the width of attention.

        log perplexity = a[d, seed] + b u + c u^2 + e u f,    u = log2(W / d)

    d is the embedding size, and W = heads * head size. f depends only on d: it is log10 of the
    training FLOPs of the model with W = d, minus the mean of this logarithm over all d.

    Attributes:
        slopes: b, c and e, (3,).
        covariance: the covariance of `slopes`, (3, 3).
        residual: the standard deviation of the residuals.
        freedom: the degrees of freedom of `residual`.
        center: the mean of log10 FLOPs over all d, which f subtracts.
    """

    slopes: NDArray[np.float64]
    covariance: NDArray[np.float64]
    residual: float
    freedom: int
    center: float

    def gain(self, width: float, flops: float) -> tuple[float, float, float]:
        """Return the predicted gain of a width W/d over W/d = 1, and the ends of its interval.

        The gain is the log perplexity at W/d = 1 minus the log perplexity at `width`, so positive
        gains favour `width`. The interval is a prediction interval for the gain of new runs, from
        the means of SEEDS runs at each width. It has the probability CONFIDENCE.

        Args:
            width: W / d.
            flops: the training FLOPs of a model with W = d.
        """
        direction = -_terms(width, np.log10(flops) - self.center)
        variance = direction @ self.covariance @ direction
        variance += 2 * self.residual**2 / SEEDS
        reach = stats.t.ppf((1 + CONFIDENCE) / 2, self.freedom) * np.sqrt(variance)
        gain = direction @ self.slopes
        return float(gain), float(gain - reach), float(gain + reach)


def main() -> None:
    """Write the prediction, the figure and the tables."""
    prediction = predict(finished())
    PREDICTION.write_text(json.dumps(prediction, indent=2) + "\n", "utf-8")
    FIGURE.write_bytes(draw(finished(), prediction))
    page = FOLDER / "README.md"
    page.write_text(with_tables(page.read_text("utf-8")), "utf-8")


def table_of(text: str) -> Path:
    """Return the path of the csv table of the experiment `width` on a text, such as "novels"."""
    return TABLES / f"width-local-cpu-{text}.csv"


def finished(text: str = "novels") -> pd.DataFrame:
    """Return the finished runs of the experiment `width` on a text.

    The additional columns `relative` and `flops` have W/d and the training FLOPs.
    """
    runs = pd.read_csv(table_of(text))
    runs = runs[runs["state"] == "done"]
    return runs.assign(
        relative=runs["width"] / runs[EMBEDDING],
        flops=runs["flops_per_token"] * runs["tokens_seen"],
    )


def fit(runs: pd.DataFrame) -> Fit:
    """Fit the regression to these runs by least squares."""
    at_d = runs[runs["relative"] == 1].groupby(EMBEDDING)["flops"].first()
    sizes = np.log10(runs[EMBEDDING].map(at_d))
    center = float(np.log10(at_d).mean())
    terms = [
        _terms(width, size - center)
        for width, size in zip(runs["relative"], sizes, strict=True)
    ]

    # Instead of fitting an intercept a[d, seed], subtract the mean of the runs of each (d, seed).
    blocks = [runs[EMBEDDING].to_numpy(), runs["seed"].to_numpy()]
    table = pd.DataFrame(terms).assign(score=np.log(runs[METRIC].to_numpy()))
    centered = table - table.groupby(blocks).transform("mean")
    x, y = centered[[0, 1, 2]].to_numpy(), centered["score"].to_numpy()

    inverse = np.linalg.inv(x.T @ x)
    slopes = inverse @ x.T @ y
    freedom = len(runs) - table.groupby(blocks).ngroups - len(slopes)
    variance = float(np.sum((y - x @ slopes) ** 2)) / freedom
    return Fit(slopes, variance * inverse, variance**0.5, freedom, center)


def _terms(width: float, size: float) -> NDArray[np.float64]:
    """Return the regressors u, u^2 and u f, of shape (3,), for W/d = `width` and f = `size`."""
    u = np.log2(width)
    return np.array([u, u**2, u * size])


def predict(runs: pd.DataFrame) -> dict[str, Any]:
    """Return the content of prediction.json: the predicted gains at d = 256, and the fit."""
    fitted = fit(runs)
    with tempfile.TemporaryDirectory() as outputs:
        planned = headroom.plan(LARGER, outputs=outputs)
    reference = planned[planned["width"] == planned[EMBEDDING]].iloc[0]
    gains = {}
    for width in OTHERS:
        gain, low, high = fitted.gain(width, reference["flops"])
        gains[f"{width:g}"] = {"gain": gain, "low": low, "high": high}
    return {
        "command": " ".join(["python sweep.py -m", *LARGER]),
        "gain": "log perplexity at W/d = 1 minus that at this W/d; means of 3 seeds",
        "confidence": CONFIDENCE,
        EMBEDDING: int(reference[EMBEDDING]),
        "flops": int(reference["flops"]),
        "gains": gains,
        "slopes": dict(zip("bce", fitted.slopes.tolist(), strict=True)),
        "residual": fitted.residual,
        "fitted_to": {
            "runs": len(runs),
            "embedding_sizes": sorted(runs[EMBEDDING].unique().tolist()),
            "sha256": hashlib.sha256(table_of("novels").read_bytes()).hexdigest(),
        },
    }


def with_tables(text: str) -> str:
    """Return the text of the page with its two tables replaced by new ones."""
    prediction = json.loads(PREDICTION.read_text("utf-8"))
    return replace_tables(text, (by_width(), predicted(prediction)))


def by_width() -> str:
    """Return a table of mean perplexities by text, embedding size and W/d."""
    groups = [
        (name, embedding, own)
        for name in TEXTS
        for embedding, own in finished(name).groupby(EMBEDDING)
    ]
    rows = []
    for name, embedding, own in groups:
        means = own.groupby("relative")[METRIC].mean()
        seeds = own.groupby("relative").size()
        trigram = own["test/trigram_perplexity"].iloc[0]
        cells = [f"{means[1.0]:.1f}"]
        for width in OTHERS:
            gain = gains_by_seed(own, width)
            cells.append(_percent(gain.mean()) if len(gain) else "not trained")
        counts = " to ".join(map(str, sorted({seeds.min(), seeds.max()})))
        rows.append((name, f"{embedding}", counts, *cells, f"{trigram:.1f}"))
    head = ["text", "d", "seeds", "perplexity at W/d = 1"]
    head += [f"W/d = {width:g}, better by" for width in OTHERS]
    return table([*head, "trigram"], rows)


def gains_by_seed(runs: pd.DataFrame, width: float) -> pd.Series:
    """Return the gain (see `Fit.gain`) of `width` for each seed, given runs of one embedding size.

    Leave out seeds without a run at `width` or at W/d = 1.
    """
    scores = np.log(runs.set_index(["relative", "seed"])[METRIC].unstack("seed"))
    return (scores.loc[1.0] - scores.loc[width]).dropna()


def predicted(prediction: dict[str, Any]) -> str:
    """Return a table of the predicted gains."""
    rows = []
    for width, gain in prediction["gains"].items():
        ends = f"{_percent(gain['low'])} to {_percent(gain['high'])}"
        rows.append((width, _percent(gain["gain"]), ends))
    embedding = prediction[EMBEDDING]
    head = ("W/d", f"better than W/d = 1 at d = {embedding} by", "95 % interval")
    return table(head, rows)


def draw(runs: pd.DataFrame, prediction: dict[str, Any]) -> bytes:
    """Return a PNG with the gains of all widths, and the prediction for the larger model."""
    with rc_context(RC):
        figure, [axes] = panels(1)
        axes.set_xscale("log", base=2)
        axes.set_xlabel("attention width W, relative to d")
        axes.set_ylabel("better than W = d by (%)")
        axes.axhline(0, color=FAINT_INK, linewidth=0.8)
        legend: list[Entry] = []

        for place, (embedding, own) in enumerate(runs.groupby(EMBEDDING)):
            look: Style = {"color": PALETTE[place], "marker": MARKERS[place]}
            by_width = {
                width: gains_by_seed(own, width) for width in (0.5, 1.0, 2.0, 4.0)
            }
            for width, gain in by_width.items():
                axes.plot(
                    [width] * len(gain), _in_percent(gain), **look, ls="", alpha=0.3
                )
            means = [_in_percent(gain.mean()) for gain in by_width.values()]
            drawn = axes.plot([*by_width], means, **look)
            legend.append(((drawn[0],), f"d = {embedding}"))

        axes.set_xticks([*by_width], [f"{width:g}" for width in by_width])
        legend.append(_draw_band(axes, fit(runs), prediction))
        notes = [
            "Faint marks: single seeds. Models of one d have equally many parameters.",
            f"Band: {100 * CONFIDENCE:g} % interval of the difference of means of {SEEDS} seeds.",
        ]
        lay_out(figure, 180.0, "What wider attention gains", legend, notes)
        return rendered(figure, "png")


def _draw_band(axes: Axes, fitted: Fit, prediction: dict[str, Any]) -> Entry:
    """Draw the predicted gains as a band. Return its entry in the legend."""
    widths = np.exp2(np.linspace(-1, 2, 61))
    predicted = [fitted.gain(width, prediction["flops"]) for width in widths]
    gain, low, high = _in_percent(np.array(predicted).T)
    axes.fill_between(widths, low, high, color=FAINT_INK, alpha=0.15, linewidth=0)
    [line] = axes.plot(widths, gain, color=FAINT_INK, linestyle="--")
    return (line,), f"predicted, d = {prediction[EMBEDDING]}"


def _percent(gain: float) -> str:
    """Return a difference of log perplexities in per cent of the smaller perplexity."""
    return f"{_in_percent(gain):.1f} %"


def _in_percent(gain: Any) -> Any:
    return np.sign(gain) * np.expm1(np.abs(gain)) * 100


if __name__ == "__main__":
    main()
