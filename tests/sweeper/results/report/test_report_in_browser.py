"""The page as a reader has it: a real browser, without a network."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sweeper.publish import collect_and_judge
from sweeper.results.report.page import write_report
from sweeper.store.runs import RunStore
from tests.sweeper.results.grids import FEW, figure1
from tests.sweeper.results.report.browser import WIDTHS, Browser, absent
from tests.sweeper.results.report.reported import (
    content_of,
    large_sweep,
    write_sweep,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(absent()), reason=f"needs {' and '.join(absent())}"),
]

CURVES = "return [...document.querySelectorAll('figure.curves .curve')].map(e => e.dataset.run)"


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
