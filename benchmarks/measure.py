"""How a benchmark measures and what it leaves: interleaved rounds, ratios within a round, a line.

Variants take turns, so that what else the machine does meets them all; times are CPU seconds of one
thread, which other processes stretch far less than wall seconds.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import resource
import shlex
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LINES = ROOT / "outputs" / "benchmarks.jsonl"

Times = dict[str, list[float]]
"""Seconds of each variant in each round."""


Facts = Mapping[str, Any]
"""What one line says, beside when and where it was measured."""


def arguments(about: str | None) -> argparse.Namespace:
    """Read a benchmark's command line: `smoke`, whether sizes are tiny, and `lines`, its file."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--smoke", action="store_true", help="tiny sizes: does it run at all?")
    parser.add_argument("--lines", type=Path, default=LINES, help="the file a line is added to")
    return parser.parse_args()


def interleaved(
    variants: Mapping[str, Callable[[], object]],
    rounds: int,
    clock: Callable[[], float] = time.thread_time,
) -> Times:
    """Return the seconds of each variant, called in turn; a first round is not counted."""

    def timed(variant: Callable[[], object]) -> float:
        begun = clock()
        variant()
        return clock() - begun

    return turns({name: partial(timed, variant) for name, variant in variants.items()}, rounds)


def turns(timed: Mapping[str, Callable[[], float]], rounds: int) -> Times:
    """Ask each variant in turn for the seconds it takes; a first round is not counted."""
    times: Times = {name: [] for name in timed}
    for number in range(rounds + 1):
        for name, seconds in timed.items():
            taken = seconds()
            if number:
                times[name].append(taken)
    return times


def speed_up(times: Times, of: str, over: str) -> dict[str, float]:
    """Return how many times as fast `of` is as `over`: median and quartiles of paired rounds."""
    return spread([b / a for a, b in zip(times[of], times[over], strict=True)])


def speed_ups(times: Times, of: str, over: Iterable[str]) -> dict[str, dict[str, float]]:
    """Return the speed-up over each of the others, by its words."""
    return {f"{of} over {other}": speed_up(times, of, other) for other in over if other != of}


def spread(values: Sequence[float]) -> dict[str, float]:
    several = [*values, *values] if len(values) == 1 else values
    low, _, high = quantiles(several, n=4, method="inclusive")
    return {
        "median": round(median(values), 4),
        "quartile_1": round(low, 4),
        "quartile_3": round(high, 4),
    }


@dataclass(frozen=True)
class Called:
    """What a command took, with all processes it waited for, and what it printed."""

    wall_s: float
    cpu_s: float
    output: str


def call(*command: str) -> Called:
    """Run a Python program as a person does, from the root; its output is shown if it fails.

    The CPU seconds are its own only where no other command is called meanwhile.
    """
    begun, used = time.monotonic(), _cpu_of_children()
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return Called(time.monotonic() - begun, _cpu_of_children() - used, done.stdout)


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def present(package: str) -> bool:
    """Whether a peer is installed; one sentence where it is not."""
    if importlib.util.find_spec(package) is not None:
        return True
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    peers = shlex.join(project["optional-dependencies"]["bench"])
    remedy = f"{shlex.quote(sys.executable)} -m pip install {peers}"
    print(
        f"{package} is not installed, so it is left out; install it with {remedy}", file=sys.stderr
    )
    return False


def leave(results: Callable[[bool], Iterable[Facts]]) -> None:
    """Measure as the command line asks; each result is printed and added to its file.

    `results` is the main module's, given whether sizes are tiny. A line is in JSON: what was
    measured, when and on what.
    """
    options = arguments(sys.modules["__main__"].__doc__)
    from tasks.training.machine import facts as machine  # --help needs no torch

    options.lines.parent.mkdir(parents=True, exist_ok=True)
    for facts in results(options.smoke):
        line = {
            "benchmark": Path(sys.argv[0]).stem,
            "time": datetime.now(UTC).isoformat(timespec="seconds"),
            **facts,
            "load": round(os.getloadavg()[0], 2),
            **machine(),
        }
        text = json.dumps(line)
        print(text)
        with options.lines.open("a") as file:
            file.write(text + "\n")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return the lines of a table in Markdown, the last one without its end."""
    lines = ([cell.replace("|", "\\|") for cell in line] for line in (head, *rows))
    first, *rest = (f"| {' | '.join(cells)} |" for cells in lines)
    return "\n".join([first, f"|{' --- |' * len(head)}", *rest])
