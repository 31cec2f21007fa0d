"""A headless Chromium for tests, driven by chromedriver over the W3C WebDriver protocol."""

from __future__ import annotations

import base64
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
    """The programs that are needed and not installed."""
    return [program for program in PROGRAMS if shutil.which(program) is None]


class Browser:
    """One window; `profile` is a new empty folder."""

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
        """Shows a file, with no network; a page that was open is left for good."""
        self._command("Network.enable", {})
        conditions = {"latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
        self._command("Network.emulateNetworkConditions", {"offline": True, **conditions})
        self._post("url", {"url": "about:blank"})
        self.console()
        self.requests()
        self._post("url", {"url": page.as_uri() + fragment})
        self.drawn()

    def drawn(self) -> None:
        """Waits until all that fits itself to its width has been drawn: two frames."""
        script = "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))"
        self._post("execute/async", {"script": script, "args": []})

    def size(self, width: int, height: int = 900) -> None:
        """The size of the window in pixels of the page."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self._command("Emulation.setDeviceMetricsOverride", metrics)

    def prefer(self, scheme: str) -> None:
        """What the system says of colours: "light" or "dark"."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._command("Emulation.setEmulatedMedia", {"features": features})

    def run(self, script: str, *arguments: Any) -> Any:
        """What the body of a function returns that is called with the arguments."""
        return self._post("execute/sync", {"script": script, "args": list(arguments)})

    def all(self, selector: str) -> list[str]:
        """The elements that a CSS selector finds."""
        found = self._post("elements", {"using": "css selector", "value": selector})
        return [one[_ELEMENT] for one in found]

    def hover(self, selector: str, place: int = 0) -> None:
        """The mouse in the middle of an element, which is brought into view."""
        self._mouse(selector, place)

    def click(self, selector: str, place: int = 0) -> None:
        """A click there, whatever else lies at that spot."""
        press = [{"type": kind, "button": 0} for kind in ("pointerDown", "pointerUp")]
        self._mouse(selector, place, *press)

    def _mouse(self, selector: str, place: int, *then: dict[str, Any]) -> None:
        target = {_ELEMENT: self.all(selector)[place]}
        self.run("arguments[0].scrollIntoView({block: 'center', behavior: 'instant'})", target)
        move = {"type": "pointerMove", "duration": 0, "x": 0, "y": 0, "origin": target}
        mouse = {"type": "pointer", "id": "mouse", "actions": [move, *then]}
        self._post("actions", {"actions": [mouse]})
        self.drawn()

    def type(self, selector: str, text: str) -> None:
        """Text, typed into an element after what is there."""
        self._post(f"element/{self.all(selector)[0]}/value", {"text": text})

    def texts(self, selector: str) -> list[str]:
        """The text of each element that is found, as it is in the document."""
        script = "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)"
        found: list[str] = self.run(script, selector)
        return found

    def screenshot(self) -> bytes:
        """What the window shows, as PNG."""
        return base64.b64decode(self._ask("GET", f"{self._session}/screenshot"))

    def console(self) -> list[str]:
        """What the console has said since the last time it was asked."""
        return [entry["message"] for entry in self._post("se/log", {"type": "browser"})]

    def requests(self) -> list[str]:
        """The addresses that were asked for since the last time."""
        entries = self._post("se/log", {"type": "performance"})
        events = [json.loads(entry["message"])["message"] for entry in entries]
        sent = [e["params"] for e in events if e["method"] == "Network.requestWillBeSent"]
        return [str(one["request"]["url"]) for one in sent]

    def close(self) -> None:
        """Ends the browser."""
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
    """A browser that is ended again, whatever happens."""
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
