"""Writes docs/performance.md from the newest line of each: `python -m benchmarks.document`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.measure import LINES, ROOT, table

DOCUMENT = ROOT / "docs" / "performance.md"
ABOUT = Path(__file__).with_name("performance.md")  # what the numbers are, in words

Line = Mapping[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=Path, default=LINES)
    parser.add_argument("--document", type=Path, default=DOCUMENT)
    options = parser.parse_args()
    if not options.lines.is_file():
        parser.error(
            f"--lines={options.lines}: expected a file of lines; make it with `make bench`"
        )
    options.document.write_text(document(options.lines))


def document(lines: Path) -> str:
    """Return the text: a section for each benchmark that was ever measured."""
    newest = newest_lines(lines)
    parts = [ABOUT.read_text().rstrip()]
    for name, (title, rows) in SECTIONS.items():
        found = [line for (benchmark, _), line in newest.items() if benchmark == name]
        if found:
            parts.append(f"## {title} (`python -m benchmarks.{name}`)")
            parts += [f"{_table(rows(line))}\n\n{_where(line)}" for line in found]
    return "\n\n".join(parts) + "\n"


def newest_lines(lines: Path) -> dict[tuple[str, Any], Line]:
    """Return the last line of each benchmark and shape (or number of points), in order."""
    newest: dict[tuple[str, Any], Line] = {}
    for text in lines.read_text().splitlines():
        line = json.loads(text)
        newest[line["benchmark"], line.get("shape", line.get("points"))] = line
    return newest


Rows = Iterable[tuple[str, ...]]


def _spread(value: Mapping[str, float], unit: str = "") -> str:
    quartiles = f"{value['quartile_1']:.3g} to {value['quartile_3']:.3g}"
    return f"{value['median']:.3g}{unit} ({quartiles})"


def _ratios(line: Line) -> Rows:
    for name, value in line["speed_up"].items():
        yield name, _spread(value, "x")


def _speeds(line: Line) -> Rows:
    """Tokens per second of each variant, then the ratios."""
    yield f"{line['shape']}", "tokens/s, or ratio: median (quartiles)"
    for name, value in line["tokens_per_second"].items():
        real = f", {line['real'][name]:.1%} real" if "real" in line else ""
        yield name, f"{value:,.0f}{real}"
    if "of_peak" in line:
        yield "headroom, of the matrix-product peak", f"{line['of_peak']:.0%}"
    yield from _ratios(line)


def _loop(line: Line) -> Rows:
    yield f"{line['shape']}", "CPU ms a step, or ratio: median (quartiles)"
    for name, value in line["ms_per_step"].items():
        yield name, f"{value:.1f}"
    yield from _ratios(line)


def _makespan(line: Line) -> Rows:
    yield f"{line['runs']} runs, {line['slots']} at a time", "wall s, or ratio: median (quartiles)"
    yield "bound", f"{line['bound']:.1f}"
    for name, value in line["seconds"].items():
        yield name, f"{value:.1f}"
    yield "headroom over the bound", f"{line['over_bound']:.2f}x"
    yield from _ratios(line)


def _planning(line: Line) -> Rows:
    keys = ("points", "wall_s", "cpu_s_per_point", "hydra_cpu_s_per_point", "memory_mb")
    yield keys
    yield tuple(f"{line[key]:,}" for key in keys)


def _heads(line: Line) -> Rows:
    yield "heads", "CPU ms a step", "GFLOP/s"
    for heads, value in line["ms"].items():
        yield heads, f"{value:.1f}", f"{line['gflops_per_second'][heads]:.1f}"


def _records(line: Line) -> Rows:
    yield "finished runs", "collect, CPU s", "draw, CPU s"
    for count, value in line["cpu_seconds"].items():
        yield f"{int(count):,}", f"{value['collect']:.2f}", f"{value['draw']:.2f}"


def _status(line: Line) -> Rows:
    yield "runs", "wall s: median (quartiles)", "CPU s: median (quartiles)"
    yield f"{line['runs']:,}", _spread(line["wall_s"]), _spread(line["cpu_s"])


def _overhead(line: Line) -> Rows:
    runs = f"{line['runs']} runs that train nothing, {line['slots']} at a time"
    yield runs, "wall s a run: median (quartiles)", f"all of a sweep of {line['few']}, wall s"
    for name, value in line["seconds_per_run"].items():
        yield name, _spread(value), f"{line['seconds_of_few'][name]:.1f}"


def _time_left(line: Line) -> Rows:
    yield "sweep", "seconds", "samples", "within 25 % or 10 s", "within 25 %", "first said / truth"
    for name, one in line["sweeps"].items():
        near, strict = f"{one['near']:.0%}", f"{one['within_a_quarter']:.0%}"
        first = f"{one['first_over_truth']:.2f}"
        yield name, f"{one['seconds']:.0f}", str(one["samples"]), near, strict, first


def _files(line: Line) -> Rows:
    yield "who asks what", "per run", "per second that a run trains"
    for name in ("job looked", "job changed", "job synced", "sweep looked", "sweep changed"):
        per = (line[key].get(name, 0) for key in ("per_run", "per_second"))
        yield name, *(f"{value:.3g}" for value in per)
    yield "files that a run leaves", f"{line['files_of_a_run']}", "-"


SECTIONS: dict[str, tuple[str, Callable[[Line], Rows]]] = {
    "step": ("A training step", _speeds),
    "loop": ("The loop around it", _loop),
    "stacked": ("Several runs as one model", _speeds),
    "packing": ("Real tokens", _speeds),
    "data": ("The data pipeline alone", _speeds),
    "makespan": ("A sweep of small runs", _makespan),
    "overhead": ("What a run costs beside its training", _overhead),
    "time_left": ("Time left, as it is told", _time_left),
    "planning": ("Planning", _planning),
    "status": ("Asking how far it is", _status),
    "heads": ("More heads", _heads),
    "records": ("More records", _records),
    "files": ("What a file server is asked", _files),
}


def _table(rows: Rows) -> str:
    head, *body = rows
    return table(head, body)


def _where(line: Line) -> str:
    hardware, rounds = line["hardware"], line.get("rounds")
    told = f"{rounds} round{'s' * (rounds > 1)}, " if rounds else ""
    return (
        f"{told}{line['time'][:10]}, commit {line['code']}, {hardware['cores']} cores of "
        f"{hardware['cpu']} ({hardware['instructions']}), torch {line['versions']['torch']}, "
        f"load average {line['load']}"
    )


if __name__ == "__main__":
    main()
