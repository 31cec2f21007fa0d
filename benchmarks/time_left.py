"""Holds the time that a sweep says is left against the truth: `python -m benchmarks.time_left`.

Sweeps are typed at terminals, as by a person: once from the beginning; once cut off half-way and
typed again, while a second person types the same and watches. What the view says is noted every
5 s, or every 1 s where all of it takes less than two minutes, until the last run is done. It is
near where it is within 25 % of the truth or 10 s. Nothing else should be done by the machine.
"""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from statistics import median
from tempfile import TemporaryDirectory
from threading import Thread
from typing import Any

from benchmarks.measure import ROOT, Facts, leave

SWEEPS = {"demo": ("experiment=theorem1,fig1,fig2,fig3",)}
SMOKE = {"smoke": ("task=representation", "model=layer", "model.head_size=1,2,3", "logger=none")}
NEAR, NEAR_S = 0.25, 10.0
SHORT_S, EVERY_S = 120.0, 5.0
LEFT = re.compile(r"about (?:([\d.]+) (s|days|years)|(?:(\d+):)?(\d+):(\d\d)) left")
LAST = re.compile(r"\[(\d+)/\1\] done")
UNITS = {"s": 1.0, "days": 86400.0, "years": 365 * 86400.0}
SIZE = {"COLUMNS": "200", "LINES": "50", "TERM": "xterm"}


class Terminal:
    """A sweep typed at a terminal of its own; what it said was left, and when it was done."""

    def __init__(self, command: tuple[str, ...], outputs: str) -> None:
        self.begun = time.monotonic()
        self.said: list[tuple[float, float]] = []
        self.done: float | None = None  # when the last run was
        self.last = ""
        self._screen, inside = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "sweep.py", "-m", *command, f"paths.outputs={outputs}"],
            cwd=ROOT,
            env={**os.environ, **SIZE},
            stdin=inside,
            stdout=inside,
            stderr=inside,
            start_new_session=True,
        )
        os.close(inside)
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def interrupt(self) -> None:
        """Ctrl-C, and wait until it has ended."""
        self._process.send_signal(signal.SIGINT)
        self.wait()

    def wait(self) -> Terminal:
        """Wait until it has ended."""
        self._process.wait()
        self._reader.join()
        return self

    def _read(self) -> None:
        unread = ""
        while new := self._new():
            now, text = time.monotonic(), unread + new
            if self.done is None and LAST.search(text):
                self.done = now
            if found := [*LEFT.finditer(text)]:
                self.said.append((now, _seconds(found[-1])))
            self.last = text[-2000:]
            unread = text[found[-1].end() if found else 0 :][-200:]

    def _new(self) -> str:
        try:
            return os.read(self._screen, 1 << 16).decode(errors="replace")
        except OSError:  # so a terminal says that nobody writes to it any more
            os.close(self._screen)
            return ""


def results(smoke: bool) -> Iterator[Facts]:
    found: dict[str, dict[str, Any]] = {}
    for name, command in (SMOKE if smoke else SWEEPS).items():
        with TemporaryDirectory() as outputs:
            found[name] = _judged(Terminal(command, outputs).wait())
        with TemporaryDirectory() as outputs:
            cut = Terminal(command, outputs)
            _until_said(cut)
            time.sleep(found[name]["seconds"] / (8 if smoke else 2))
            cut.interrupt()
            own = Terminal(command, outputs)
            _until_said(own)
            watching = Terminal(command, outputs)
            found[f"{name}, resumed"] = _judged(own.wait())
            if watching.wait().said:  # else all was done before it had planned
                found[f"{name}, watched"] = _judged(watching)
    yield {"sweeps": found}


def _until_said(terminal: Terminal) -> None:
    while not terminal.said and terminal.done is None:
        time.sleep(0.1)


def _judged(terminal: Terminal) -> dict[str, Any]:
    """How near to the truth what a terminal said was, and for how long it said something."""
    if terminal.done is None or not terminal.said:
        raise SystemExit(f"a sweep did not come to its end:\n{terminal.last}")
    first, end = terminal.said[0][0], terminal.done
    every = EVERY_S if end - first > SHORT_S else 1.0
    moments = [first + every * number for number in range(int((end - first) / every) + 1)]
    pairs = [(_shown(terminal, moment), end - moment) for moment in moments]
    near = [abs(said - left) <= max(NEAR * left, NEAR_S) for said, left in pairs]
    strict = [abs(said - left) <= NEAR * left for said, left in pairs]
    return {
        "seconds": round(end - first, 1),
        "before_s": round(first - terminal.begun, 1),
        "samples": len(pairs),
        "near": round(sum(near) / len(near), 3),
        "within_a_quarter": round(sum(strict) / len(strict), 3),
        "first_over_truth": round(pairs[0][0] / max(pairs[0][1], 0.1), 2),
        "median_error": round(median(said / max(left, 0.1) - 1 for said, left in pairs), 3),
    }


def _shown(terminal: Terminal, moment: float) -> float:
    """What stood there at a moment."""
    return [said for at, said in terminal.said if at <= moment][-1]


def _seconds(words: re.Match[str]) -> float:
    """What `clock` of sweeper/store/numbers.py has written."""
    number, unit, hours, minutes, seconds = words.groups()
    if unit:
        return float(number) * UNITS[unit]
    return 3600.0 * int(hours or 0) + 60 * int(minutes) + int(seconds)


if __name__ == "__main__":
    leave(results)
