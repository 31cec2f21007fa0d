"""Sweeps with what is hard to draw, and what of a figure can be read."""

from matplotlib.figure import Figure
from matplotlib.text import Text

from tests.sweeper.results.grids import figure1
from tests.sweeper.results.synthetic import Model, Sweep

HOSTILE = "$\\foo$ _{x} <script>alert(1)</script>\x1b[31m\n\u202e=cmd() \U0001f600 日本 \0" * 7


def half(arm: str, model: Model, seed: int) -> bool:
    return (model.heads + model.embedding_size // 32 + seed) % 2 == 0


def hostile() -> Sweep:
    sweep = figure1()
    sweep.title = HOSTILE
    sweep.labels = {arm: HOSTILE + arm for arm in sweep.labels}
    return sweep


def texts(figure: Figure) -> list[Text]:
    """All text that can be seen."""
    figure.draw_without_rendering()
    found = [text for text in figure.findobj(Text) if text.get_visible()]
    return [text for text in found if text.get_text().strip() and text.get_window_extent().width]


def words(figure: Figure) -> str:
    return " ".join(text.get_text() for text in texts(figure))
