"""Shared functions of the benchmarks: timing in interleaved rounds, commands, and tables."""

import argparse
import csv
import importlib.util
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median, quantiles

ROOT = Path(__file__).resolve().parents[1]

MADE = "<!-- made by python -m benchmarks.findings -->\n"
TEXTS = ("novels", "encyclopedia")

Times = dict[str, list[float]]
"""The seconds of each variant in each round."""


def smoke(about: str | None) -> bool:
    """Parse the command line of a benchmark. Return whether to use tiny sizes."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument(
        "--smoke", action="store_true", help="use tiny sizes, to test the benchmark"
    )
    return bool(parser.parse_args().smoke)


def interleaved(variants: Mapping[str, Callable[[], float]], rounds: int) -> Times:
    """Time each variant once per round, after a round that warms up. Return the seconds.

    The variants take turns, so that other load on the machine affects all of them. A variant is a
    function that executes once and returns the seconds that this took.
    """
    times: Times = {name: [] for name in variants}
    for number in range(rounds + 1):
        for name, seconds in variants.items():
            taken = seconds()
            if number:
                times[name].append(taken)
    return times


def speed_up(times: Times, of: str, over: str) -> str:
    """Return how many times as fast variant `of` is as variant `over`, such as "2x (1.9 to 2.1)".

    The ratio is computed for each round. The text has the median and the quartiles of all rounds.
    """
    rounds = zip(times[of], times[over], strict=True)
    return spread([slow / fast for fast, slow in rounds], "x")


def spread(values: Sequence[float], unit: str = "") -> str:
    """Return the median and the quartiles as text, such as "2x (1.9 to 2.1)" with the unit "x"."""
    several = [*values, *values] if len(values) == 1 else values
    low, _, high = quantiles(several, n=4, method="inclusive")
    return f"{median(values):.3g}{unit} ({low:.3g} to {high:.3g})"


def call(*command: str) -> float:
    """Run a Python program in the root of the repository. Return its wall-clock seconds.

    Raises:
        SystemExit: the program failed. The message contains its output.
    """
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return time.monotonic() - begun


def present(package: str) -> bool:
    """Return whether `package` is installed. If not, print how to install it."""
    if importlib.util.find_spec(package) is not None:
        return True
    remedy = "install the packages that pyproject.toml lists under `bench`"
    print(
        f"{package} is not installed, so its rows are left out; to include them, {remedy}.",
        file=sys.stderr,
    )
    return False


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a csv file."""
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = ([cell.replace("|", "\\|") for cell in line] for line in (head, *rows))
    first, *rest = (f"| {' | '.join(cells)} |" for cells in lines)
    return "\n".join([first, f"|{' --- |' * len(head)}", *rest])


def replace_tables(page: str, tables: Iterable[str]) -> str:
    """Return the page with new tables.

    Each table to replace follows a line MADE in the page. `tables` has the new tables in the same
    order.
    """
    made, rest = "", page
    for one in tables:
        before, _, rest = rest.partition(MADE)
        rest = rest.partition("\n\n")[2]
        made += f"{before}{MADE}{one.rstrip()}\n\n"
    return made + rest


def in_per_cent(value: float, low: float, high: float) -> str:
    """Return a log ratio and its interval as text in per cent, such as "2.5 % (1.0 to 4.1)".

    The percentage is relative to the smaller value of the ratio. So the inverse ratio has the same
    percentage with the opposite sign. If the interval contains 0, the text begins with "undecided".
    """
    ends = [
        math.copysign(math.expm1(abs(end)) * 100, end) for end in (value, low, high)
    ]
    digits = 2 if abs(ends[0]) < 1 else 1
    found, least, most = (f"{end:.{digits}f}" for end in ends)
    words = f"{found} % ({least} to {most})"
    return words if low > 0 or high < 0 else f"undecided: {words}"


def measured_on() -> str:
    """Return a line that names the date, the code, the hardware and its load."""
    # This import is here because it imports torch, which would make --help slow.
    from tasks.training.machine import facts

    here = facts("cpu")
    hardware, versions = here["hardware"], here["versions"]
    return (
        f"{datetime.now(UTC):%Y-%m-%d}, commit {here['code']}, "
        f"{hardware['cores']} cores of {hardware['cpu']} ({hardware['instructions']}), "
        f"torch {versions['torch']}, load average {os.getloadavg()[0]:.2f}"
    )


def fill(document: Path, module: str, text: str) -> None:
    """Replace the results of a benchmark in a document by `text`.

    The results are between the line `<!-- measured by python -m MODULE -->` and the next heading of
    the second level, or the end of the document.
    """
    marker = f"<!-- measured by python -m {module} -->\n"
    before, found, after = document.read_text("utf-8").partition(marker)
    if not found:
        raise SystemExit(
            f"{document}: expected a line {marker.strip()} above the results; add it"
        )
    _, heading, rest = after.partition("\n## ")
    document.write_text(f"{before}{marker}\n{text.strip()}\n{heading}{rest}", "utf-8")
