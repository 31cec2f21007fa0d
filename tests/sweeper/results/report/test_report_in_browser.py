"""The page as a reader has it: a real browser, without a network."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sweeper.outcome import collect_and_judge
from sweeper.results.figures.layout.palette import MARKERS, PALETTE
from sweeper.results.figures.layout.panel import looks_of
from sweeper.results.report.page import write_report
from sweeper.store.runs import RunStore
from tests.sweeper.results.finetuned import Finetuned
from tests.sweeper.results.grids import FEW, figure1
from tests.sweeper.results.report.browser import Browser, absent, browser
from tests.sweeper.results.report.reported import (
    PAYLOADS,
    content_of,
    fine_tuned,
    foreign,
    large_sweep,
    small_sweep,
    write_sweep,
)

pytestmark = pytest.mark.skipif(bool(absent()), reason=f"needs {' and '.join(absent())}")

WIDTHS = (1280, 390)  # a desk and a phone
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
CURVES = "return [...document.querySelectorAll('figure.curves .curve')].map(e => e.dataset.run)"
PAPER = "return getComputedStyle(document.body).backgroundColor"


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests."""
    with browser(tmp_path_factory.mktemp("profile")) as window:
        yield window


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a small sweep."""
    return small_sweep(tmp_path_factory.mktemp("small"))


@pytest.fixture
def page(window: Browser, small: Path) -> Iterator[Browser]:
    """A browser that shows the page of a small sweep, which must not have complained in the end."""
    window.size(WIDTHS[0])
    window.prefer("light")
    window.open(small)
    yield window
    assert window.console() == []


def column(page: Browser, key: str) -> list[str]:
    """The cells of a column from top to bottom, as they are shown."""
    heads = page.run("return [...document.querySelectorAll('.rows th')].map(e => e.dataset.key)")
    return page.texts(f".rows tbody td:nth-child({heads.index(key) + 1})")


def test_it_asks_for_nothing_but_itself(page: Browser, small: Path) -> None:
    assert page.requests() == [small.as_uri()]
    assert page.texts("h1") == ["Report of a sweep"]
    assert len(page.all(".chart svg")) == 3


def test_it_says_what_is_done_and_why_the_rest_is_not(page: Browser, small: Path) -> None:
    runs = content_of(small)["runs"]
    [sentence] = page.texts(".lead")
    assert sentence == f"Of {len(runs)} runs, {len(runs) - 2} done, 1 failed, 1 not started."
    assert any("the loss is nan at step 7" in told for told in page.texts(".waiting li"))
    assert page.texts("#claims .answer") == ["Undecided"] * 3


def test_every_row_is_there_and_sorts_both_ways(page: Browser, small: Path) -> None:
    [experiment] = content_of(small)["experiments"]
    assert len(page.all(".rows tbody tr")) == len(experiment["rows"])
    page.click("th[data-key='test/perplexity'] button")
    rising = [float(cell) for cell in column(page, "test/perplexity") if cell]
    assert len(rising) > 2
    assert rising == sorted(rising) != rising[::-1]
    assert column(page, "test/perplexity")[-1] == "", "what has no value stands last"
    page.click("th[data-key='test/perplexity'] button")
    assert [float(cell) for cell in column(page, "test/perplexity") if cell] == rising[::-1]
    assert column(page, "test/perplexity")[-1] == ""
    assert page.run(
        "return document.querySelector(\"th[aria-sort='descending']\").dataset.key"
    ) == ("test/perplexity")


def test_the_filter_leaves_the_rows_with_all_its_words(page: Browser) -> None:
    page.type("input[type=search]", "FAILED nan")
    assert column(page, "state") == ["failed"]
    assert len(page.all("figure.curves .curve")) == 0
    page.click(".chip[data-word=done]")
    assert set(column(page, "state")) == {"done"}
    page.type("input[type=search]", " no-such-word")
    assert page.all(".rows tbody tr") == []


def test_the_curves_are_those_of_the_runs_chosen(page: Browser) -> None:
    done = len(set(page.run(CURVES)))
    assert done == len(page.all("figure.curves .curve")) > 1
    page.click(".chip[data-word=done]")
    page.click(".rows tbody input", 1)
    [chosen] = page.run(CURVES)
    assert chosen == column(page, "run")[1]


def test_a_pointer_at_a_seed_tells_of_its_run(page: Browser) -> None:
    page.hover(".experiment circle.seed")
    told = page.run("return document.getElementById('tip').innerText").splitlines()
    [run] = page.run(
        "return [...document.querySelectorAll('.seed.chosen')].map(e => e.dataset.run)"
    )
    assert run in told
    assert any(line.startswith("test perplexity per subword") for line in told)


def test_a_click_opens_the_run_with_its_settings_curve_and_log(page: Browser, small: Path) -> None:
    page.click(".experiment circle.seed")
    [id] = page.texts("#run-name")
    run = content_of(small)["runs"][id]
    assert page.run("return document.getElementById('run').open")
    assert len(page.all("dialog .curve")) == 1
    told = dict(zip(page.texts("dialog dt"), page.texts("dialog dd"), strict=True))
    heads = (content_of(small)["shared"] | run["settings"])["model.heads"]
    assert told["model.heads"] == str(heads)
    name = "test perplexity per subword"
    assert told[name] == f"{run['metrics'][name]:.5g}"
    assert run["log"][-1] in page.texts("dialog pre")[0]
    page.click("dialog button")
    assert not page.run("return document.getElementById('run').open")


def test_the_address_of_a_run_opens_it(window: Browser, small: Path) -> None:
    failed = next(id for id, run in content_of(small)["runs"].items() if run["state"] == "failed")
    window.open(small, f"#run={failed}")
    assert window.texts("#run-name") == [failed]
    assert "It has written no training curve." in window.texts("dialog .empty")
    window.open(small, "#run=<img src=x onerror=pwned=1>")
    assert not window.run("return document.getElementById('run').open")
    assert window.console() == []


def test_points_move_with_what_they_are_drawn_over(page: Browser) -> None:
    words = ".experiment svg text.label"
    assert "total parameters" in page.texts(words)
    seeds = len(page.all(".experiment circle.seed"))
    page.run(
        "const list = document.querySelector('.experiment select'); list.value = 'model.heads';"
        "list.dispatchEvent(new Event('change'))"
    )
    labels = page.texts(words)
    assert any(label.startswith("heads") for label in labels)
    assert "total parameters" not in labels
    assert len(page.all(".experiment circle.seed")) == seeds


def test_hours_are_added_up_by_kind_of_device(window: Browser, tmp_path: Path) -> None:
    sweep = figure1(grid=FEW, seeds=2)
    first, second, *others = sweep.results
    sweep.results[first] |= {"device": "a card", "seconds": 7200}
    sweep.results[second] |= {"device": "another card", "seconds": 1800}
    for id in others:
        sweep.results[id] |= {"device": "a processor", "seconds": 3600}
    write_sweep(tmp_path, sweep)
    for id in sweep.results:
        path = RunStore(tmp_path).run(id).attempts()[0].path / "attempt.json"
        hardware = {"hardware": {"cpu": "a processor"}}
        path.write_text(json.dumps(json.loads(path.read_text()) | hardware))
    window.open(write_report(tmp_path, *collect_and_judge(tmp_path, None)))
    assert window.texts("#hours") == [f"In all 2.5 hours on GPUs, {len(others)}.0 hours on CPUs."]
    assert window.console() == []


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


def test_an_experiment_is_addressed_by_its_name(window: Browser, tmp_path: Path) -> None:
    for name in ("fig1", "state"):  # the second is also a part of the page
        sweep = figure1(grid=FEW, seeds=1)
        sweep.name = name
        for point in sweep.points:
            point["experiment"] = name
        write_sweep(tmp_path, sweep)
    window.open(write_report(tmp_path, *collect_and_judge(tmp_path, None)), "#fig1")
    top = "return document.getElementById(arguments[0]).getBoundingClientRect().top"
    assert abs(window.run(top, "fig1")) < 2
    hrefs = "return [...document.querySelectorAll('#nav a')].map(e => e.getAttribute('href'))"
    wanted = ["#fig1", "#experiment-state", "#state", "#provenance"]
    assert window.run(hrefs) == wanted
    assert all(len(window.all(f"[id='{href[1:]}']")) == 1 for href in wanted)


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


def test_five_hundred_runs_are_all_there(window: Browser, tmp_path: Path) -> None:
    page = large_sweep(tmp_path)
    window.size(WIDTHS[0])
    window.open(page)
    assert window.texts(".lead") == ["All 500 runs are done."]
    assert len(window.all(".rows tbody tr")) == 500
    assert len(window.all("figure.curves .curve")) == 500
    assert len(window.all(".experiment circle.seed")) == 500
    window.type("input[type=search]", "heads=17")
    assert set(column(window, "point")) == {f"heads={heads}" for heads in (17, *range(170, 180))}
    assert window.console() == []
