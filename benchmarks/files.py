"""Counts operations on files: per run, and per second that a run trains (`... benchmarks.files`).

`strace` follows whole sweeps on this machine and tells every call that names something in their
outputs folder, or changes or syncs it: what a file server would be asked. Between a sweep of few
runs and one of more lies what a run costs; between one of short runs and one of long ones what a
second of training costs, by the job and by the sweep that looks after it. Reads and writes of a
file that is open are not counted: they ask nobody for a name.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measure import ROOT, Facts, leave
from sweeper.store.runs import RunStore

SLOTS = 2
TINY = (
    *("model.embedding_size=16", "model.heads=2", "model.layers=1", "task.sequence_length=16"),
    *("optimizer.warmup_steps=1", "trainer.accelerator=cpu", "trainer.checkpoint_every=0"),
    *("trainer.log_every=100", "trainer.validate_every=0", "logger=none", "task=lm1b"),
)
KINDS = {
    "looked": "open|openat|stat|lstat|newfstatat|statx|access|faccessat2?|readlink|readlinkat"
    "|getdents64|statfs",
    "changed": "creat|mkdir|mkdirat|rename|renameat2?|link|linkat|unlink|unlinkat|rmdir|symlinkat?"
    "|chmod|fchmod|fchmodat2?|utimensat|truncate|ftruncate",
    "synced": "fsync|fdatasync",
}
SPAWNS = ("clone", "clone3", "fork", "vfork")
_CALL = re.compile(r"(\d+) +(?:<\.\.\. )?(\w+)(.*)")

Counts = Counter[tuple[str, str]]
"""Calls by who makes them, "job" or "sweep", and their kind."""


def results(smoke: bool) -> Iterator[Facts]:
    """Measure what a run asks for, and what a second of its training does."""
    if not shutil.which("strace"):
        raise SystemExit("strace is not installed; install it with the system's package manager")
    runs, short, long = (2, 2, 60) if smoke else (8, 100, 8_000)
    with TemporaryDirectory() as folder:
        few, seconds = counted(Path(folder) / "few", SLOTS, short)
        many, _ = counted(Path(folder) / "many", SLOTS + runs, short)
        slow, longer = counted(Path(folder) / "slow", SLOTS, long)
        [left, *_] = RunStore(Path(folder) / "few").ids()
        files = [path for path in (Path(folder) / "few/runs" / left).rglob("*") if path.is_file()]
    yield {
        "runs": runs,
        "seconds": round(longer - seconds, 1),
        "files_of_a_run": len(files),
        "per_run": _each(many, few, runs),
        "per_second": _each(slow, few, longer - seconds),
    }


def counted(outputs: Path, runs: int, steps: int) -> tuple[Counts, float]:
    """Sweep runs of some steps; calls by who made them, and the seconds that all runs trained."""
    trace = outputs.with_suffix(".trace")
    calls = ",".join(sorted({"%file", "fchmod", "ftruncate", "getdents64", *SPAWNS}))
    strace = ("strace", "-f", "--seccomp-bpf", "-y", "-s", "4096", "-o", str(trace), "-e")
    synced = KINDS["synced"].replace("|", ",")
    sweep = (f"paths.outputs={outputs}", f"hydra.launcher.slots={SLOTS}", f"seed=range(0,{runs})")
    command = (*strace, f"trace={calls},{synced}", sys.executable, "sweep.py", "-m", *sweep)
    done = subprocess.run(
        [*command, *TINY, f"trainer.steps={steps}"], cwd=ROOT, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"the sweep failed:\n{done.stdout}{done.stderr}")
    found = [RunStore(outputs).run(id) for id in RunStore(outputs).ids()]
    jobs = {attempt.info()["pid"] for run in found for attempt in run.attempts()}
    with trace.open(errors="replace") as lines:
        counts = count(lines, outputs, jobs)
    return counts, sum((run.result() or {}).get("seconds", 0.0) for run in found)


def count(lines: Iterable[str], outputs: Path, jobs: set[int]) -> Counts:
    """Count the calls in what strace wrote that touch something in a folder.

    `jobs` are the processes that are jobs; what they spawn is theirs.
    """
    pattern = {kind: re.compile(names) for kind, names in KINDS.items()}
    owned, counts = set(jobs), Counts()
    for line in lines:
        if not (call := _CALL.match(line)):
            continue
        pid, name, rest = int(call[1]), call[2], call[3]
        if name in SPAWNS and pid in owned and (child := re.search(r"= (\d+)", rest)):
            owned.add(int(child[1]))
        if str(outputs) not in rest or '""' in rest:
            continue
        for kind, names in pattern.items():
            if names.fullmatch(name):
                made = "changed" if "O_CREAT" in rest else kind
                counts["job" if pid in owned else "sweep", made] += 1
    return counts


def _each(more: Counts, less: Counts, by: float) -> Mapping[str, float]:
    every = {(who, kind): more[who, kind] - less[who, kind] for who, kind in {*more, *less}}
    return {f"{who} {kind}": round(n / by, 3) for (who, kind), n in sorted(every.items())}


if __name__ == "__main__":
    leave(results)
