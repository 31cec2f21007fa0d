"""What a run costs beside its training: `python benchmarks/overhead.py [RUNS] [ROUNDS]`.

A grid of runs that train nothing, two at a time: by this sweeper, and the same grid by Hydra's own
basic sweeper and by its joblib launcher around a function that does nothing. Each is measured as
the whole command a person types, with many runs and with two: the difference over the runs between
is the overhead of one run, and what is left is the fixed cost of a sweep. Rounds are interleaved.

Prints a line of JSON, medians over the rounds. What each does for it differs: a run here is
planned, frozen, a process of its own that builds a model, evaluates it and publishes durable files,
and it ends in a table and a figure; basic calls a function in its own process, joblib in one of
two.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[1]
FEW = 2
SLOTS = 2
NO_OP = [
    *("task=representation", "model=layer", "trainer.steps=0", "trainer.accelerator=cpu"),
    *("model.embedding_size=4", "model.heads=1", "model.head_size=2", "task.sequence_length=3"),
    *("task.problems_per_run=1", "logger=none"),
]
PEER = """import hydra

@hydra.main(config_path={conf!r}, config_name="config", version_base="1.3")
def main(config):
    pass

main()
"""
JOBLIB = "hydra_plugins.hydra_joblib_launcher"
PEERS = {
    "hydra_basic": ["hydra/launcher=basic"],
    "hydra_joblib": ["hydra/launcher=joblib", f"hydra.launcher.n_jobs={SLOTS}"],
}

Command = Callable[[Path, int], list[str]]


def main(runs: int, rounds: int) -> None:
    """Measure and print."""
    with TemporaryDirectory() as folder:
        peer = Path(folder) / "peer.py"
        peer.write_text(PEER.format(conf=str(ROOT / "conf")))
        commands: dict[str, Command] = {"headroom": _own}
        commands |= {name: _peer(peer, options) for name, options in PEERS.items()}
        missing = {}
        if not _installed(JOBLIB):
            del commands["hydra_joblib"]
            missing = {"hydra_joblib": "not installed: pip install hydra-joblib-launcher"}
        measured: dict[str, list[tuple[float, float]]] = {name: [] for name in commands}
        for number in range(rounds):
            for name, command in commands.items():
                place = Path(folder) / f"{name}{number}"
                few, many = (_seconds(command, place / str(n), n) for n in (FEW, runs))
                measured[name].append(((many - few) / (runs - FEW), few))
    told = {
        name: {
            "per_run_s": round(median(each for each, _ in values), 4),
            "per_run_s_of_rounds": [round(each, 4) for each, _ in values],
            f"sweep_of_{FEW}_s": round(median(few for _, few in values), 2),
        }
        for name, values in measured.items()
    }
    about = {"runs": runs, "slots": SLOTS, "cores": os.cpu_count(), "load": os.getloadavg()[0]}
    print(json.dumps({"benchmark": "overhead", **about, **told, **missing}))


def _own(outputs: Path, runs: int) -> list[str]:
    options = [f"paths.outputs={outputs}", f"hydra.launcher.slots={SLOTS}"]
    return [sys.executable, "sweep.py", *_grid(runs), *NO_OP, *options]


def _peer(program: Path, options: list[str]) -> Command:
    def command(outputs: Path, runs: int) -> list[str]:
        folders = [f"hydra.sweep.dir={outputs}", "hydra.sweep.subdir=${hydra.job.num}"]
        chosen = [*options, "hydra/sweeper=basic", *folders]
        return [sys.executable, str(program), *_grid(runs), *NO_OP, *chosen]

    return command


def _grid(runs: int) -> list[str]:
    return ["-m", f"seed=range(0,{runs})"]


def _seconds(command: Command, outputs: Path, runs: int) -> float:
    begun = time.monotonic()
    done = subprocess.run(
        command(outputs, runs), cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(done.args)} failed:\n{done.stdout[-2000:]}{done.stderr}")
    return time.monotonic() - begun


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:]]
    main(*(numbers + [200, 3][len(numbers) :]))
