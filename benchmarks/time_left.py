"""Compare the time left that a sweep prints with the truth: `python -m benchmarks.time_left`.

Sweeps run in a terminal, as a person types them: the demo, the demo again after it was interrupted
half-way, and short runs. The estimate on screen is sampled every 5 s (every 1 s in sweeps of less
than two minutes) from the third finished run, or in a resumed sweep from the first estimate, until
the last run is done. Let the machine do nothing else meanwhile.
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
SHORT = (
    "model.heads=2,4,8,16",
    "model.head_size=4,8,16",
    "seed=range(5)",
    "trainer.steps=30",
    "optimizer.warmup_steps=3",
)
SMOKE = ("task=representation", "model.head_size=1,2,3,4", "seed=0,1,2", "logger=none")
NEAR, NEAR_S = 0.25, 10.0
SHORT_S, EVERY_S = 120.0, 5.0
LEFT = re.compile(r"about (?:([\d.]+) (s|days|years)|(?:(\d+):)?(\d+):(\d\d)) left")
DONE = re.compile(r"\[(\d+)/(\d+)\] done")
MEASURED = 3  # finished runs before estimates count
UNITS = {"s": 1.0, "days": 86400.0, "years": 365 * 86400.0}
SCREEN = {"COLUMNS": "200", "LINES": "50", "TERM": "xterm"}


class Terminal:
    """A sweep in a terminal of its own."""

    def __init__(self, command: tuple[str, ...], outputs: str) -> None:
        self.estimates: list[tuple[float, float]] = []  # moments, and seconds left on the screen
        self.measured: float | None = None  # the moment at which MEASURED runs were done
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
            for number, runs in DONE.findall(text):
                if int(number) == min(MEASURED, int(runs)):
                    self.measured = self.measured or now
                if number == runs:
                    self.done = self.done or now
            if found := [*LEFT.finditer(text)]:
                number, unit, hours, minutes, seconds = found[-1].groups()
                clock = 3600.0 * int(hours or 0) + 60 * int(minutes or 0) + int(seconds or 0)
                left = float(number) * UNITS[unit] if unit else clock
                self.estimates.append((now, left))
                text = text[found[-1].end() :]
            text = text[-200:]


def compared(name: str, terminal: Terminal, *, resumed: bool = False) -> tuple[str, ...]:
    """Return a row on how near the estimates of a sweep were."""
    if terminal.done is None or terminal.measured is None or not terminal.estimates:
        raise SystemExit(f"{name}: the sweep did not finish, or printed no time left")
    end, first = terminal.done, terminal.estimates[0][0]
    first = first if resumed else max(first, terminal.measured)
    every = EVERY_S if end - first > SHORT_S else 1.0
    samples = int((end - first) / every) + 1
    near = strict = 0
    for number in range(samples):
        now = first + every * number
        shown = [left for at, left in terminal.estimates if at <= now][-1]
        error, truth = abs(shown - (end - now)), end - now
        near += error <= max(NEAR * truth, NEAR_S)
        strict += error <= NEAR * truth
    shares = (f"{strict / samples:.0%}", f"{near / samples:.0%}")
    return name, f"{end - first:.0f}", f"{samples}", *shares


def main() -> None:
    """Measure and print the table."""
    tiny = smoke(__doc__)
    command = SMOKE if tiny else DEMO
    with TemporaryDirectory() as outputs:
        begun = time.monotonic()
        whole = Terminal(command, outputs).wait()
        took = time.monotonic() - begun
    with TemporaryDirectory() as outputs:
        interrupted = Terminal(command, outputs)
        while not interrupted.measured and interrupted.process.poll() is None:
            time.sleep(0.1)
        time.sleep(took / (8 if tiny else 2))
        interrupted.process.send_signal(signal.SIGINT)
        interrupted.wait()
        resumed = Terminal(command, outputs).wait()
    with TemporaryDirectory() as outputs:
        short = Terminal(command if tiny else SHORT, outputs).wait()
    rows = [
        compared("from the beginning", whole),
        compared("resumed half-way", resumed, resumed=True),
        compared("runs of 30 steps", short),
    ]
    head = ("sweep", "seconds", "samples", "within 25 %", "within 25 % or 10 s")
    print(table(head, rows))
    print(f"\n{measured_on()}")


if __name__ == "__main__":
    main()
