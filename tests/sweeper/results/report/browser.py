"""A headless Chromium for tests, driven by chromedriver over the W3C WebDriver protocol."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

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
