"""Compare the time left that a sweep prints with the truth: `python -m benchmarks.time_left`.

A sweep runs in a terminal, as a person types it: once from the beginning, and once again after it
was interrupted half-way. The estimate on screen is sampled every 5 s (every 1 s in sweeps of less
than two minutes) until the last run is done. It counts as near within 25 % of the truth or 10 s.
Let the machine do nothing else meanwhile.
"""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
import time
from tempfile import TemporaryDirectory
from threading import Thread

from benchmarks.measure import ROOT, measured_on, smoke, table

DEMO = ("experiment=theorem1,fig1,fig2,fig3",)
SMOKE = ("task=representation", "model=layer", "model.head_size=1,2,3", "logger=none")
NEAR, NEAR_S = 0.25, 10.0
SHORT_S, EVERY_S = 120.0, 5.0
LEFT = re.compile(r"about (?:([\d.]+) (s|days|years)|(?:(\d+):)?(\d+):(\d\d)) left")
LAST = re.compile(r"\[(\d+)/\1\] done")
UNITS = {"s": 1.0, "days": 86400.0, "years": 365 * 86400.0}
SCREEN = {"COLUMNS": "200", "LINES": "50", "TERM": "xterm"}


class Terminal:
    """A sweep in a terminal of its own."""

    def __init__(self, command: tuple[str, ...], outputs: str) -> None:
        self.estimates: list[tuple[float, float]] = []  # moments, and seconds left on the screen
        self.done: float | None = None  # the moment at which the last run was done
        self._screen, inside = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "sweep.py", "-m", *command, f"paths.outputs={outputs}"],
            cwd=ROOT,
            env={**os.environ, **SCREEN},
            stdin=inside,
            stdout=inside,
            stderr=inside,
            start_new_session=True,
        )
        os.close(inside)
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait(self) -> Terminal:
        """Wait until the sweep has ended."""
        self.process.wait()
        self._reader.join()
        return self

    def _read(self) -> None:
        text = ""
        while True:
            try:
                text += os.read(self._screen, 1 << 16).decode(errors="replace")
            except OSError:  # a terminal raises this once all writers have closed it
                os.close(self._screen)
                return
            now = time.monotonic()
            if self.done is None and LAST.search(text):
                self.done = now
            if found := [*LEFT.finditer(text)]:
                number, unit, hours, minutes, seconds = found[-1].groups()
                clock = 3600.0 * int(hours or 0) + 60 * int(minutes or 0) + int(seconds or 0)
                left = float(number) * UNITS[unit] if unit else clock
                self.estimates.append((now, left))
                text = text[found[-1].end() :]
            text = text[-200:]


def compared(name: str, terminal: Terminal) -> tuple[float, tuple[str, ...]]:
    """Return how long a sweep printed estimates, and a row on how near they were."""
    if terminal.done is None or not terminal.estimates:
        raise SystemExit(f"{name}: the sweep did not finish, or printed no time left")
    (first, estimate), end = terminal.estimates[0], terminal.done
    every = EVERY_S if end - first > SHORT_S else 1.0
    samples = int((end - first) / every) + 1
    near = strict = 0
    for number in range(samples):
        now = first + every * number
        shown = [left for at, left in terminal.estimates if at <= now][-1]
        error, truth = abs(shown - (end - now)), end - now
        near += error <= max(NEAR * truth, NEAR_S)
        strict += error <= NEAR * truth
    ratio = estimate / max(end - first, 0.1)
    shares = (f"{near / samples:.0%}", f"{strict / samples:.0%}", f"{ratio:.2f}")
    return end - first, (name, f"{end - first:.0f}", f"{samples}", *shares)


def main() -> None:
    """Measure and print the table."""
    tiny = smoke(__doc__)
    command = SMOKE if tiny else DEMO
    with TemporaryDirectory() as outputs:
        took, whole = compared("from the beginning", Terminal(command, outputs).wait())
    with TemporaryDirectory() as outputs:
        interrupted = Terminal(command, outputs)
        while not interrupted.estimates and interrupted.process.poll() is None:
            time.sleep(0.1)
        time.sleep(took / (8 if tiny else 2))
        interrupted.process.send_signal(signal.SIGINT)
        interrupted.wait()
        _, resumed = compared("resumed half-way", Terminal(command, outputs).wait())
    head = ("sweep", "seconds", "samples", "within 25 % or 10 s", "within 25 %", "first / truth")
    print(table(head, [whole, resumed]))
    print(f"\n{measured_on()}")


if __name__ == "__main__":
    main()
