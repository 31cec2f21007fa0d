"""A headless Chromium for tests, driven by chromedriver over the W3C WebDriver protocol."""

from __future__ import annotations

import json
import shutil
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

WIDTHS = (1280, 390)  # a desk and a phone

PROGRAMS = ("chromium", "chromedriver")
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
_ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the name that the standard gives to elements
_NO_PROXY = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def absent() -> list[str]:
    """Return the programs that the browser tests need and that are not installed."""
    return [program for program in PROGRAMS if shutil.which(program) is None]


class Browser:
    """A browser window; `profile` is a new empty folder."""

    def __init__(self, server: str, profile: Path) -> None:
        self._server = server
        options = {
            "binary": shutil.which("chromium"),
            "args": [*ARGUMENTS, f"--user-data-dir={profile}"],
        }
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        answer = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{answer['sessionId']}"

    def open(self, page: Path, fragment: str = "") -> None:
        """Open a file without a network."""
        self._command("Network.enable", {})
        conditions = {"latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
        self._command("Network.emulateNetworkConditions", {"offline": True, **conditions})
        self._post("url", {"url": "about:blank"})
        self.console()
        self.requests()
        self._post("url", {"url": page.as_uri() + fragment})
        self.drawn()

    def drawn(self) -> None:
        """Wait two frames, until the charts have been drawn."""
        script = "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))"
        self._post("execute/async", {"script": script, "args": []})

    def size(self, width: int, height: int = 900) -> None:
        """Set the size of the window in pixels."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._command("Emulation.setDeviceMetricsOverride", metrics)

    def prefer(self, scheme: str) -> None:
        """Set the colours that the system prefers: "light" or "dark"."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._command("Emulation.setEmulatedMedia", {"features": features})

    def run(self, script: str, *arguments: Any) -> Any:
        """Run the body of a function with these arguments and return its result."""
        return self._post("execute/sync", {"script": script, "args": list(arguments)})

    def all(self, selector: str) -> list[str]:
        """Return the elements that match a CSS selector."""
        found = self._post("elements", {"using": "css selector", "value": selector})
        return [one[_ELEMENT] for one in found]

    def hover(self, selector: str, place: int = 0) -> None:
        """Scroll an element into view and move the mouse to its middle."""
        self._mouse(selector, place)

    def click(self, selector: str, place: int = 0) -> None:
        """Click the middle of an element."""
        press = [{"type": kind, "button": 0} for kind in ("pointerDown", "pointerUp")]
        self._mouse(selector, place, *press)

    def _mouse(self, selector: str, place: int, *then: dict[str, Any]) -> None:
        target = {_ELEMENT: self.all(selector)[place]}
        self.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", target)
        self._point(target, 0, 0, *then)

    def _point(self, origin: object, x: int, y: int, *then: dict[str, Any]) -> None:
        move = {"type": "pointerMove", "duration": 0, "x": x, "y": y, "origin": origin}
        mouse = {"type": "pointer", "id": "mouse", "actions": [move, *then]}
        self._post("actions", {"actions": [mouse]})
        self.drawn()

    def move(self, x: float, y: float, press: bool = False) -> None:
        """Move the mouse to a place of the window, and click there with `press`."""
        kinds = ("pointerDown", "pointerUp") if press else ()
        self._point("viewport", round(x), round(y), *({"type": k, "button": 0} for k in kinds))

    def type(self, selector: str, text: str) -> None:
        """Type text into an element."""
        self._post(f"element/{self.all(selector)[0]}/value", {"text": text})

    def texts(self, selector: str) -> list[str]:
        """Return the text of each element that matches."""
        return self._each(selector, "textContent")

    def boxes(self, selector: str) -> list[dict[str, float]]:
        """Return the bounding box of each element that matches."""
        return self._each(selector, "getBoundingClientRect()")

    def _each(self, selector: str, asked: str) -> list[Any]:
        script = f"return [...document.querySelectorAll(arguments[0])].map(e => e.{asked})"
        found: list[Any] = self.run(script, selector)
        return found

    def console(self) -> list[str]:
        """Return the messages of the console since the last call."""
        return [entry["message"] for entry in self._post("se/log", {"type": "browser"})]

    def requests(self) -> list[str]:
        """Return the addresses that the page has requested since the last call."""
        entries = self._post("se/log", {"type": "performance"})
        events = [json.loads(entry["message"])["message"] for entry in entries]
        sent = [e["params"] for e in events if e["method"] == "Network.requestWillBeSent"]
        return [str(one["request"]["url"]) for one in sent]

    def close(self) -> None:
        """End the browser."""
        self._ask("DELETE", self._session)

    def _command(self, name: str, parameters: dict[str, Any]) -> None:
        self._post("goog/cdp/execute", {"cmd": name, "params": parameters})

    def _post(self, path: str, body: Any) -> Any:
        return self._ask("POST", f"{self._session}/{path}", body)

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._server + path, data, method=method)
        try:
            with _NO_PROXY.open(request, timeout=120) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            with error:
                raise RuntimeError(json.load(error)["value"]["message"]) from None


@contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Start a browser and end it again."""
    with subprocess.Popen(
        [str(shutil.which("chromedriver")), "--port=0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        try:
            assert server.stdout is not None
            port = next(
                line.split("port ")[1].strip(" .\n")
                for line in server.stdout
                if "started successfully on port" in line
            )
            window = Browser(f"http://127.0.0.1:{port}", profile)
            try:
                yield window
            finally:
                window.close()
        finally:
            server.terminate()
