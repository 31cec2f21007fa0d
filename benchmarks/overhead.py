"""Times what a run costs beside its training: `python -m benchmarks.overhead`.

A grid of runs that train nothing, two at a time: by this sweeper, and the same grid by Hydra's own
basic sweeper and by its joblib launcher around a function that does nothing. Each is measured as
the whole command a person types, with many runs and with few: the difference over the runs between
is the overhead of one run. What each does for it differs: a run here is planned, frozen, a process
of its own that builds a model, evaluates it and publishes durable files, and it ends in a table and
a figure; basic calls a function in its own process, joblib in one of two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks.measure import ROOT, Facts, call, leave, present, spread

FEW, MANY = 2, 200
ROUNDS = 1  # one takes minutes and is of many runs; more of them tell the spread
SLOTS = 2
NO_OP = (
    *("task=representation", "model=layer", "trainer.steps=0", "trainer.accelerator=cpu"),
    *("model.embedding_size=4", "model.heads=1", "model.head_size=2", "task.sequence_length=3"),
    *("task.problems_per_run=1", "logger=none"),
)
PEER = """import hydra

@hydra.main(config_path={conf!r}, config_name="config", version_base="1.3")
def main(config):
    pass

main()
"""
JOBLIB = "hydra_plugins.hydra_joblib_launcher"


def results(smoke: bool) -> Iterator[Facts]:
    many = FEW + 1 if smoke else MANY
    with TemporaryDirectory() as folder:
        peer = Path(folder) / "peer.py"
        peer.write_text(PEER.format(conf=str(ROOT / "conf")))
        ways = {"headroom": _own, "hydra basic": _peer(peer, "hydra/launcher=basic")}
        if not smoke and present(JOBLIB):
            joblib = ("hydra/launcher=joblib", f"hydra.launcher.n_jobs={SLOTS}")
            ways["hydra joblib"] = _peer(peer, *joblib)
        sweeps: dict[str, list[float]] = {name: [] for name in ways}
        each: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(ROUNDS):
            for name, way in ways.items():
                place = Path(folder) / f"{name} {number}".replace(" ", "-")
                few, more = (_seconds(way, place / str(runs), runs) for runs in (FEW, many))
                sweeps[name].append(few)
                each[name].append((more - few) / (many - FEW))
    yield {
        "runs": many,
        "slots": SLOTS,
        "rounds": ROUNDS,
        "seconds_per_run": {name: spread(seconds) for name, seconds in each.items()},
        "few": FEW,
        "seconds_of_few": {n: round(median(seconds), 2) for n, seconds in sweeps.items()},
    }


Way = Callable[[Path], tuple[str, ...]]
"""The command of a sweep into an outputs folder, without its grid."""


def _own(outputs: Path) -> tuple[str, ...]:
    return ("sweep.py", "-m", f"paths.outputs={outputs}", f"hydra.launcher.slots={SLOTS}")


def _peer(program: Path, *options: str) -> Way:
    def way(outputs: Path) -> tuple[str, ...]:
        folders = (f"hydra.sweep.dir={outputs}", "hydra.sweep.subdir=${hydra.job.num}")
        return (str(program), "-m", *options, "hydra/sweeper=basic", *folders)

    return way


def _seconds(way: Way, outputs: Path, runs: int) -> float:
    return call(*way(outputs), f"seed=range(0,{runs})", *NO_OP).wall_s


if __name__ == "__main__":
    leave(results)
