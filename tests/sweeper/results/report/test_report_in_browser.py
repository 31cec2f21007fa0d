"""The page in a real browser without a network: what it shows and how a reader uses it.

The browser is a headless Chromium, driven by chromedriver over the W3C WebDriver protocol.
"""

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import suppress

import pytest

from sweeper.results.report.page import as_html
from tests.sweeper.results.report.reported import (
    PAYLOADS,
    content_of,
    fine_tuned,
    foreign,
)

WIDTHS = (1400, 390)  # a desk and a phone

PROGRAMS = ("chromium", "chromedriver")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all(map(shutil.which, PROGRAMS)), reason="needs chromium and chromedriver"
    ),
]

ARGUMENTS = """
--headless --no-sandbox --disable-gpu --disable-quic --no-first-run
--disable-background-networking --disable-component-update --disable-sync
"""
_NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_FILLED = """
const wait = () =>
  document.getElementById("written").hasChildNodes() ? arguments[0]() : setTimeout(wait, 5);
wait();
"""
_DRAWN = "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))"

CURVES = "figure.curves .chart"
LINES = f"{CURVES} a"
FIGURE = ".experiment .card img"
ROWS = ".rows tbody tr"
CHOOSE = """
const input = document.querySelector(arguments[0]);
input.value = arguments[1];
for (const event of ["input", "change"]) input.dispatchEvent(new Event(event));
"""
# Elements and their attributes, to compare two pages.
OUTLINE = """
const kinds = [...document.querySelectorAll("*")].map(
  (node) => `${node.tagName} ${node.getAttributeNames().sort().join(" ")}`,
);
return kinds.sort();
"""
TOO_WIDE = (
    "return document.documentElement.scrollWidth > document.documentElement.clientWidth"
)
PAPER = "return getComputedStyle(document.body).backgroundColor"
OPEN = "return document.getElementById('run').open"


class Browser:
    """A browser window at the address of its session."""

    def __init__(self, session):
        self._session = session

    def open(self, page, fragment=""):
        """Open a file without a network."""
        self._command("Network.enable", {})
        conditions = {"latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
        self._command(
            "Network.emulateNetworkConditions", {"offline": True, **conditions}
        )
        self._post("url", {"url": "about:blank"})
        self.console()
        self.requests()
        self._post("url", {"url": page.as_uri() + fragment})
        self._post("execute/async", {"script": _FILLED, "args": []})
        self.run("")

    def size(self, width):
        """Set the width of the window in pixels."""
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1}
        self._command(
            "Emulation.setDeviceMetricsOverride", {"mobile": False, **metrics}
        )

    def prefer(self, scheme):
        """Set the colours that the system prefers: "light" or "dark"."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._command("Emulation.setEmulatedMedia", {"features": features})

    def run(self, script, *arguments):
        """Run the body of a JavaScript function, wait two frames, and return its result."""
        result = self._post("execute/sync", {"script": script, "args": list(arguments)})
        self._post("execute/async", {"script": _DRAWN, "args": []})
        return result

    def click(self, selector):
        """Click the first element that matches."""
        self.run("document.querySelector(arguments[0]).click()", selector)

    def wait_for(self, selector, words):
        """Wait until an element has these words, even if the page reloads meanwhile."""
        for _ in range(600):
            with suppress(RuntimeError):  # between two pages
                if any(words in text for text in self.texts(selector)):
                    return
            time.sleep(0.1)
        raise AssertionError(f"no {selector} has {words!r}")

    def each(self, selector, asked):
        """Return a property of each element that matches, or the result of a method."""
        every = "[...document.querySelectorAll(arguments[0])]"
        return self.run(f"return {every}.map(e => e.{asked})", selector)

    def texts(self, selector):
        """Return the text of each element that matches."""
        return self.each(selector, "textContent")

    def boxes(self, selector):
        """Return the bounding box of each element that matches."""
        return self.each(selector, "getBoundingClientRect()")

    def console(self):
        """Return the messages of the console since the last call."""
        return [entry["message"] for entry in self._post("se/log", {"type": "browser"})]

    def requests(self):
        """Return the addresses that the page has requested since the last call.

        A figure is a data: address, which is part of the page.
        """
        entries = self._post("se/log", {"type": "performance"})
        events = [json.loads(entry["message"])["message"] for entry in entries]
        addresses = [
            event["params"]["request"]["url"]
            for event in events
            if event["method"] == "Network.requestWillBeSent"
        ]
        return [address for address in addresses if not address.startswith("data:")]

    def _command(self, name, parameters):
        self._post("goog/cdp/execute", {"cmd": name, "params": parameters})

    def _post(self, path, body):
        return ask("POST", f"{self._session}/{path}", body)


def ask(method, address, body=None):
    """Return the answer of the driver."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, method=method)
    try:
        with _NO_PROXY.open(request, timeout=120) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        with error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    """Start one browser for all tests, with a new empty folder as its profile."""
    profile = tmp_path_factory.mktemp("profile")
    wanted = {
        "browserName": "chrome",
        "goog:chromeOptions": {
            "binary": shutil.which("chromium"),
            "args": [*ARGUMENTS.split(), f"--user-data-dir={profile}"],
        },
        "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
    }
    with subprocess.Popen(
        ["chromedriver", "--port=0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        try:
            ready = next(
                line for line in server.stdout if "started successfully" in line
            )
            port = ready.split("port ")[1].strip(" .\n")
            address = f"http://127.0.0.1:{port}/session"
            answer = ask("POST", address, {"capabilities": {"alwaysMatch": wanted}})
            session = f"{address}/{answer['sessionId']}"
            try:
                yield Browser(session)
            finally:
                ask("DELETE", session)
        finally:
            server.terminate()


@pytest.fixture
def window(started):
    """Return the window in its first state. After the test, its console must be empty."""
    started.size(WIDTHS[0])
    started.prefer("light")
    yield started
    assert started.console() == []


@pytest.fixture
def page(window, small):
    """Open the page of a small sweep."""
    window.open(small)
    return window


def changed(folder, page, **values):
    """Write a page with changed data and return its file."""
    made = folder / "report.html"
    content = {**content_of(page), **values}
    made.write_text(as_html(content, content["figures"]))
    return made


def runs_of(page):
    """Return the runs whose curves are drawn."""
    return {
        href.removeprefix("#run=") for href in page.each(LINES, "getAttribute('href')")
    }


def column(page, key):
    """Return the cells of a column from top to bottom."""
    place = page.each(".rows th", "firstChild.value").index(key)
    return page.texts(f"{ROWS} td:nth-child({place + 1})")


def test_it_requests_only_itself_and_its_first_screen_has_verdicts_and_a_figure(
    page, small
):
    assert page.requests() == [small.as_uri()]
    [lead] = page.texts(".lead")
    assert lead == "Of 8 runs, 6 done, 1 failed, 1 not started."
    assert "the loss is nan at step 7" in " ".join(page.texts("#state li"))
    assert page.texts(".claims .answer") == ["Undecided"] * 3
    assert len(page.texts(".claims .effect")) == 1
    for selector in (".claims li", FIGURE):
        boxes = page.boxes(selector)
        assert boxes
        assert max(box["bottom"] for box in boxes) < 900
    [figure] = page.boxes(FIGURE)
    assert all(claim["left"] > figure["right"] for claim in page.boxes(".claims li"))
    assert page.each(FIGURE, "naturalWidth") == [648]  # the browser could read the SVG
    assert "runs missing" in page.each(FIGURE, "alt")[0]


def test_rows_sort_both_ways_with_empty_cells_last(page, small):
    [experiment] = content_of(small)["experiments"]
    assert len(page.texts(ROWS)) == len(experiment["rows"])
    head = "th:has([value='test/perplexity'])"
    for direction in ("ascending", "descending"):
        page.click(f"{head} button")
        cells = column(page, "test/perplexity")
        numbers = [float(cell) for cell in cells if cell]
        assert len(set(numbers)) > 2
        assert numbers == sorted(numbers, reverse=direction == "descending")
        assert cells[-1] == ""
        assert page.each(head, "ariaSort") == [direction]


def test_the_filter_chooses_the_runs_whose_curves_are_drawn(page, small):
    runs = content_of(small)["runs"].items()
    assert runs_of(page) == {id for id, run in runs if run["state"] == "done"}
    page.run(CHOOSE, "input[type=search]", "FAILED nan")
    assert column(page, "state") == ["failed"]
    assert runs_of(page) == set()
    page.click(".chip[value=done]")
    assert set(column(page, "state")) == {"done"}
    assert runs_of(page) == set(column(page, "run"))


def test_a_curve_opens_its_run_with_all_its_facts(page, small):
    page.run(
        "location.hash = document.querySelector(arguments[0]).getAttribute('href')",
        LINES,
    )
    [id] = page.texts("#run-name")
    run = content_of(small)["runs"][id]
    assert page.run(OPEN)
    assert len(page.boxes("dialog .chart a")) == 1
    told = dict(zip(page.texts("dialog dt"), page.texts("dialog dd"), strict=True))
    heads = run["settings"]["model.heads"]
    assert told["model.heads"] == str(heads)
    name = "test perplexity per subword"
    assert told[name] == f"{run['metrics'][name]:.5g}"
    assert run["log"][-1] in page.texts("dialog pre")[0]
    page.click("dialog button")
    assert not page.run(OPEN)


def test_the_address_of_a_run_opens_it(window, small):
    failed = next(
        id for id, run in content_of(small)["runs"].items() if run["state"] == "failed"
    )
    window.open(small, f"#run={failed}")
    assert window.texts("#run-name") == [failed]
    assert "This run has no training curve." in window.texts("dialog .empty")
    window.open(small, "#run=<img src=x onerror=pwned=1>")
    assert not window.run(OPEN)


def test_an_experiment_is_addressed_by_its_name(window, tmp_path, small):
    [experiment] = content_of(small)["experiments"]
    # The second name is also that of a part of the page.
    two = [experiment | {"name": name} for name in ("fig1", "state")]
    window.open(changed(tmp_path, small, experiments=two), "#fig1")
    assert abs(window.boxes("#fig1")[0]["top"]) < 2
    hrefs = window.each("#nav a", "getAttribute('href')")
    assert hrefs == ["#fig1", "#experiment-state", "#state", "#provenance"]
    assert all(len(window.boxes(f"[id='{href[1:]}']")) == 1 for href in hrefs)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_system_until_the_reader_chooses(page, scheme):
    page.prefer(scheme)
    system = page.run(PAPER)
    page.prefer({"light": "dark", "dark": "light"}[scheme])
    assert page.run(PAPER) != system
    page.run(CHOOSE, "#theme", scheme)
    assert page.run(PAPER) == system
    page.prefer(scheme)
    assert page.run(PAPER) == system


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_fits_any_width(window, tmp_path, small, width):
    window.size(width)
    for page in (small, fine_tuned(tmp_path)):
        window.open(page)
        assert not window.run(TOO_WIDE)
        for box in window.boxes(".chart text"):
            assert 0 <= box["left"] < box["right"] <= width


def test_a_page_of_an_unfinished_sweep_loads_itself_again_where_its_reader_is(
    window, tmp_path, small
):
    page, data = tmp_path / "report.html", content_of(small)
    run = next(iter(data["runs"]))
    page.write_text(
        as_html({**data, "written": "before"}, data["figures"], refresh_s=2)
    )
    window.open(page, f"#run={run}")
    window.run("scrollTo(0, 333)")
    changed(tmp_path, small, written="after")
    window.wait_for("#written", "Written after.")
    assert window.texts("#run-name") == [run]
    assert window.run("return scrollY") == 333
    assert window.texts("meta[name=refresh]") == []


def test_foreign_text_is_text(window, tmp_path):
    outlines = []
    harmless = tuple(f"word{place}" for place in range(len(PAYLOADS)))
    for name, words in (("harmless", harmless), ("hostile", PAYLOADS)):
        page = foreign(tmp_path / name, words)
        window.open(page)
        run = next(iter(content_of(page)["runs"]))
        window.run(f"location.hash = '#run={run}'")
        outlines.append(window.run(OUTLINE))
        assert window.requests() == [page.as_uri()]
        assert window.run("return typeof pwned") == "undefined"
    assert outlines[0] == outlines[1]
    # The page begins with the newest; the last payloads hold control characters and stand escaped.
    assert window.texts(".experiment h2")[-23:] == list(reversed(PAYLOADS[:23]))


def test_seeds_and_sizes_are_shown_with_all_digits(window, tmp_path, small):
    [experiment] = content_of(small)["experiments"]
    for place, row in enumerate(experiment["rows"]):
        row["seed"] = 1_000_000 + place
    window.open(changed(tmp_path, small, experiments=[experiment]))
    seeds = [str(row["seed"]) for row in experiment["rows"]]
    assert column(window, "seed") == seeds
