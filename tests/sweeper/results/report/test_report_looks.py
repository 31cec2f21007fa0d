"""How the page looks in a real browser: nothing is cut, and nothing foreign is markup."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sweeper.publish import collect_and_judge
from sweeper.results.figures.layout.palette import MARKERS, PALETTE
from sweeper.results.figures.layout.panel import looks_of
from sweeper.results.report.page import write_report
from sweeper.store.runs import RunStore
from tests.sweeper.results.finetuned import Finetuned
from tests.sweeper.results.report.browser import WIDTHS, Browser, absent
from tests.sweeper.results.report.reported import (
    PAYLOADS,
    content_of,
    fine_tuned,
    foreign,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(absent()), reason=f"needs {' and '.join(absent())}"),
]

# Elements with their attributes, but for those that hold numbers of a drawing.
OUTLINE = """
const found = {};
for (const node of document.querySelectorAll("*")) {
  const names = node.getAttributeNames().sort().join(" ");
  const key = `${node.tagName.toLowerCase()} ${names}`;
  found[key] = (found[key] ?? 0) + 1;
}
return found;
"""
# Words on a drawing that leave it, or that lie over each other.
SPOILT_WORDS = """
const spoilt = [];
for (const svg of document.querySelectorAll(".chart svg")) {
  const frame = svg.getBoundingClientRect();
  const words = [...svg.querySelectorAll("text")];
  const boxes = words.map((text) => text.getBoundingClientRect());
  boxes.forEach((box, place) => {
    const name = words[place].textContent;
    if (box.left < frame.left - 1 || box.right > frame.right + 1) spoilt.push(name);
    if (box.top < frame.top - 1 || box.bottom > frame.bottom + 1) spoilt.push(name);
    boxes.slice(0, place).forEach((other, before) => {
      const beside = box.right <= other.left || other.right <= box.left;
      const apart = beside || box.bottom <= other.top || other.bottom <= box.top;
      if (!apart) spoilt.push(`${name} over ${words[before].textContent}`);
    });
  });
}
return spoilt;
"""
TOO_WIDE = "return document.documentElement.scrollWidth > document.documentElement.clientWidth"
PAPER = "return getComputedStyle(document.body).backgroundColor"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_system_until_the_reader_chooses(page: Browser, scheme: str) -> None:
    page.prefer(scheme)
    system = page.run(PAPER)
    page.prefer({"light": "dark", "dark": "light"}[scheme])
    other = page.run(PAPER)
    assert system != other
    page.click("#theme")
    assert page.run(PAPER) == system
    page.prefer(scheme)
    assert page.run(PAPER) == system


@pytest.mark.parametrize("width", WIDTHS)
def test_no_word_is_cut_or_covered_at_any_width(
    window: Browser, tmp_path: Path, small: Path, width: int
) -> None:
    for page in (small, fine_tuned(tmp_path)):
        window.size(width)
        window.open(page)
        assert len(window.all(".chart svg text")) > 10
        assert window.run(SPOILT_WORDS) == []
        assert not window.run(TOO_WIDE)
        assert window.console() == []


def test_the_first_screen_has_the_verdicts_and_a_figure(page: Browser) -> None:
    script = (
        "return [...document.querySelectorAll(arguments[0])].map(e => e.getBoundingClientRect())"
    )
    for selector in ("#claims li", "#first .chart svg"):
        boxes = page.run(script, selector)
        assert boxes
        assert max(box["bottom"] for box in boxes) < 900


def test_each_task_has_axes_of_its_own_and_arms_look_as_in_the_figures(
    window: Browser, tmp_path: Path
) -> None:
    sweep = Finetuned("fig2")
    sweep.table(tmp_path)
    store = RunStore(tmp_path)
    for id in store.ids():
        with store.run(id).attempts()[0].metrics() as rows:
            rows.write({"step": 1, "train/loss": 2.0})
    window.size(WIDTHS[0])
    window.open(write_report(tmp_path, *collect_and_judge(tmp_path, None)))
    assert window.texts("figure.curves p.name") == ["pretraining", "squad", "mnli"]
    arms = content_of(tmp_path / "report.html")["experiments"][0]["arms"]
    looks = looks_of([arm["name"] for arm in arms])
    assert [PALETTE[arm["colour"]] for arm in arms] == [
        looks[a["name"]].colour.upper() for a in arms
    ]
    assert [MARKERS[arm["marker"]] for arm in arms] == [looks[arm["name"]].marker for arm in arms]


def test_foreign_text_is_text(window: Browser, tmp_path: Path) -> None:
    window.size(WIDTHS[0])
    outlines: list[Any] = []
    for name, words in (
        ("harmless", tuple(f"word{place}" for place in range(len(PAYLOADS)))),
        ("hostile", PAYLOADS),
    ):
        page = foreign(tmp_path / name, words)
        window.open(page)
        run = next(iter(content_of(page)["runs"]))
        window.run(f"location.hash = '#run={run}'")
        window.click("dialog summary")
        outlines.append(window.run(OUTLINE))
        assert window.console() == []
        assert window.requests() == [page.as_uri()]
        assert window.run("return typeof pwned") == "undefined"
    harmless, hostile = outlines
    assert hostile == harmless
    assert window.texts(".experiment h2")[:23] == list(PAYLOADS[:23])
