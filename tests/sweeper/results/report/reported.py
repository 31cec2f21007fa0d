"""Pages of synthetic sweeps with curves, logs and failed runs, and a headless Chromium."""

from __future__ import annotations

import gzip
import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from sweeper.publish import collect_and_judge
from sweeper.results.report.page import write_report
from sweeper.store.runs import RunStore
from tests.sweeper.results.synthetic import FEW, Finetuned, Model, Sweep, figure1

# Foreign text that has run as script, markup, style or spreadsheet formula somewhere.
PAYLOADS = (
    "<script>pwned=1</script>",
    "</script><script>pwned=1</script>",
    "</SCRIPT ><img src=x onerror=pwned=1>",
    "<!--<script>",
    "--><script>pwned=1</script>",
    "<img src=x onerror=pwned=1>",
    "<svg onload=pwned=1>",
    "<svg><script>pwned=1</script></svg>",
    "<iframe src=javascript:parent.pwned=1></iframe>",
    "<a href=javascript:pwned=1>click</a>",
    "javascript:pwned=1",
    '"><img src=x onerror=pwned=1>',
    "' onmouseover='pwned=1",
    '" onfocus="pwned=1" autofocus="',
    "`onload=pwned=1`",
    "</style><script>pwned=1</script>",
    "<style>*{display:none}</style>",
    "</title><script>pwned=1</script>",
    "<base href=//evil.example/>",
    "<meta http-equiv=refresh content=0;url=//evil.example>",
    "<link rel=stylesheet href=//evil.example/x.css>",
    "<form action=//evil.example><input autofocus onfocus=pwned=1>",
    "${pwned=1}$data{{pwned}}",
    "__proto__",
    "constructor",
    "&lt;script&gt;pwned=1&lt;/script&gt;",
    "\\u003cscript>pwned=1\\u003c/script>",
    "\u202e<script>pwned=1</script>\u2066",
    "line\u2028end\r\n\x00\x1b[31m<b>",
    "=HYPERLINK(//evil.example)",
)


def page_of(outputs: Path) -> Path:
    """Write the page of all planned experiments."""
    return write_report(outputs, *collect_and_judge(outputs, None))


def write_sweep(outputs: Path, sweep: Sweep, *, steps: int = 41, lines: int = 3) -> None:
    """Write the sweep; each attempt has `steps` rows of metrics and `lines` lines of log."""
    sweep.write(outputs)
    for id in sweep.records:
        for attempt in RunStore(outputs).run(id).attempts():
            with attempt.metrics() as rows:
                for step in range(1, steps + 1):
                    rows.write({"step": step, "train/loss": 1 + 7 / step, "learning_rate": 0.1})
            said = (
                f"step {line} of {id}: train/loss {7 / line:.3f}" for line in range(1, lines + 1)
            )
            attempt.log_path.write_text("".join(f"{line}\n" for line in said))


def small_sweep(outputs: Path) -> Path:
    """Write the page of a small Figure 1 with curves, a failed run and a run not started."""

    def done(arm: str, model: Model, seed: int) -> bool:
        return model.embedding_size != 96

    sweep = figure1(grid=FEW, seeds=2, done=done)
    write_sweep(outputs, sweep)
    failed = next(id for id in sweep.records if id not in sweep.results)
    RunStore(outputs).run(failed).claim({}).finish("nan", "the loss is nan at step 7")
    return page_of(outputs)


def large_sweep(outputs: Path, runs: int = 500) -> Path:
    """Write the page of a large sweep, whose runs have long curves and logs."""
    sweep = Sweep(claims=(), labels={"fixed": "fixed", "other": "other"})
    for place in range(runs // 2):
        model = Model(64, 2 + place, 32)
        arm = "fixed" if place % 2 else "other"
        sweep.add(arm, {"model.heads": 2 + place}, model, {0: 43.0 - place / 97, 1: 43.3})
    write_sweep(outputs, sweep, steps=211, lines=101)
    return page_of(outputs)


def fine_tuned(outputs: Path) -> Path:
    """Write the page of models fine-tuned on two tasks; one run is missing."""
    sweep = Finetuned("fig2", done=lambda task, heads, seed: (task, heads, seed) != ("mnli", 8, 1))
    sweep.table(outputs)
    return page_of(outputs)


def foreign(outputs: Path, words: tuple[str, ...]) -> Path:
    """Write a page with an experiment for each word, used wherever a person may write text."""
    for place, word in enumerate(words):
        sweep = Sweep(
            name=word, title=word, metric=f"{word}/{word}", x=word, claims=(), labels={word: word}
        )
        for heads in (2, 3):
            model = Model(64, 2 * place + heads, 32)
            values = {word: word, f"{word}.{word}": heads}
            sweep.add(word, values, model, {0: 40.0 + heads, 1: None})
        for record in sweep.records.values():
            record["config"] |= {"task": {"name": word}, word: word}
        for result in sweep.results.values():
            result["device"] = word
        write_sweep(outputs, sweep)
        for id in sweep.records:
            run = RunStore(outputs).run(id)
            if id not in sweep.results:
                run.claim({"code": word, "versions": {word: word}}).finish("crash", word, word)
            log = f"{word}\n".encode("utf-8", "replace")
            run.attempts()[-1].log_path.write_bytes(log)
    return page_of(outputs)


def content_of(page: Path) -> dict[str, Any]:
    """Return the data in the page."""
    text = page.read_text("utf-8")
    found = re.search(r'<script type="text/plain" id="data">(.*?)</script>', text)
    assert found
    content: dict[str, Any] = json.loads(gzip.decompress(b64decode(found[1])))
    return content


WIDTHS = (1400, 390)  # a desk and a phone
PROGRAMS = ("chromium", "chromedriver")
ABSENT = [program for program in PROGRAMS if shutil.which(program) is None]
ARGUMENTS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_FILLED = """
const wait = () =>
  document.getElementById("written").hasChildNodes() ? arguments[0]() : setTimeout(wait, 5);
wait();
"""
_DRAWN = "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))"


class Browser:
    """A browser window at the address of its session."""

    def __init__(self, session: str) -> None:
        self._session = session

    def open(self, page: Path, fragment: str = "") -> None:
        """Open a file without a network."""
        self._command("Network.enable", {})
        conditions = {"latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
        self._command("Network.emulateNetworkConditions", {"offline": True, **conditions})
        self._post("url", {"url": "about:blank"})
        self.console()
        self.requests()
        self._post("url", {"url": page.as_uri() + fragment})
        self._post("execute/async", {"script": _FILLED, "args": []})
        self.run("")

    def size(self, width: int, height: int = 900) -> None:
        """Set the size of the window in pixels."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._command("Emulation.setDeviceMetricsOverride", metrics)

    def prefer(self, scheme: str) -> None:
        """Set the colours that the system prefers: "light" or "dark"."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._command("Emulation.setEmulatedMedia", {"features": features})

    def run(self, script: str, *arguments: Any) -> Any:
        """Run the body of a function with these arguments, wait two frames, return its result."""
        result = self._post("execute/sync", {"script": script, "args": list(arguments)})
        self._post("execute/async", {"script": _DRAWN, "args": []})
        return result

    def click(self, selector: str, place: int = 0) -> None:
        """Click one of the elements that match."""
        self.run("document.querySelectorAll(arguments[0])[arguments[1]].click()", selector, place)

    def move(self, x: float, y: float, press: bool = False) -> None:
        """Move the mouse to a place of the window, and click there with `press`."""
        actions: list[dict[str, Any]] = [{"type": "pointerMove", "x": round(x), "y": round(y)}]
        if press:
            actions += [{"type": kind, "button": 0} for kind in ("pointerDown", "pointerUp")]
        mouse = {"type": "pointer", "id": "mouse", "actions": actions}
        self._post("actions", {"actions": [mouse]})
        self.run("")

    def wait_for(self, selector: str, words: str) -> None:
        """Wait until an element has the words, also if the page loads itself meanwhile."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with suppress(RuntimeError):  # between two pages
                if any(words in text for text in self.texts(selector)):
                    return
            time.sleep(0.1)
        raise AssertionError(f"no {selector} has {words!r}")

    def each(self, selector: str, asked: str) -> list[Any]:
        """Return a property of each element that matches, or the result of a method."""
        script = f"return [...document.querySelectorAll(arguments[0])].map(e => e.{asked})"
        found: list[Any] = self.run(script, selector)
        return found

    def texts(self, selector: str) -> list[str]:
        """Return the text of each element that matches."""
        return self.each(selector, "textContent")

    def boxes(self, selector: str) -> list[dict[str, float]]:
        """Return the bounding box of each element that matches."""
        return self.each(selector, "getBoundingClientRect()")

    def console(self) -> list[str]:
        """Return the messages of the console since the last call."""
        return [entry["message"] for entry in self._post("se/log", {"type": "browser"})]

    def requests(self) -> list[str]:
        """Return the addresses that the page has requested since the last call."""
        entries = self._post("se/log", {"type": "performance"})
        events = [json.loads(entry["message"])["message"] for entry in entries]
        sent = [e["params"] for e in events if e["method"] == "Network.requestWillBeSent"]
        return [str(one["request"]["url"]) for one in sent]

    def _command(self, name: str, parameters: dict[str, Any]) -> None:
        self._post("goog/cdp/execute", {"cmd": name, "params": parameters})

    def _post(self, path: str, body: Any) -> Any:
        return ask("POST", f"{self._session}/{path}", body)


def ask(method: str, address: str, body: Any = None) -> Any:
    """Return the answer of the driver."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, method=method)
    try:
        with _NO_PROXY.open(request, timeout=120) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        with error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Start a browser with a new empty folder as its profile, and end it again."""
    wanted = {
        "browserName": "chrome",
        "goog:chromeOptions": {
            "binary": shutil.which("chromium"),
            "args": [*ARGUMENTS, f"--user-data-dir={profile}"],
        },
        "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
    }
    with subprocess.Popen(
        ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        try:
            assert server.stdout is not None
            started = next(line for line in server.stdout if "started successfully" in line)
            port = started.split("port ")[1].strip(" .\n")
            address = f"http://127.0.0.1:{port}/session"
            answer = ask("POST", address, {"capabilities": {"alwaysMatch": wanted}})
            session = f"{address}/{answer['sessionId']}"
            try:
                yield Browser(session)
            finally:
                ask("DELETE", session)
        finally:
            server.terminate()
