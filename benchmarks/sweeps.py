"""Measure the overhead of a sweep: `python -m benchmarks.sweeps`.

This benchmark times whole commands: sweeps of many runs that train nothing, compared with Hydra's
own launchers, and the dry run of a large grid.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measure import ROOT, call, measured_on, present, smoke, table

SLOTS = 2
NO_OP = (
    *(
        "task=representation",
        "model=layer",
        "trainer.steps=0",
        "trainer.accelerator=cpu",
    ),
    *(
        "model.embedding_size=4",
        "model.heads=1",
        "model.head_size=2",
        "task.sequence_length=3",
    ),
    *("task.problems_per_run=1", "logger=none"),
)
PEER = """import hydra

@hydra.main(config_path={conf!r}, config_name="config", version_base="1.3")
def main(config):
    pass

main()
"""


def main() -> None:
    """Measure and print all tables."""
    tiny = smoke(__doc__)
    with TemporaryDirectory() as folder:
        print("### Many runs\n")
        print(overhead(Path(folder), few=2, many=3 if tiny else 1000, peers=not tiny))
        print("\n### Planning\n")
        print(planning(Path(folder) / "planned", heads=(1,) if tiny else (1, 10, 100)))
    print(f"\n{measured_on()}")


def overhead(folder: Path, *, few: int, many: int, peers: bool) -> str:
    """Time sweeps of runs that train nothing, and return a table of the overhead of one run.

    Time a sweep with few runs and one with many. The overhead of one run is the difference of their
    times, divided by the difference of their numbers of runs. If `peers` is True, time Hydra's
    joblib launcher, too.

    The launchers do different work. For each run, Headroom writes a record and starts a process,
    which builds a model, evaluates it and writes durable files. Then Headroom makes a table and a
    figure. Hydra's basic launcher calls an empty function in its own process, and joblib calls it
    in two processes.
    """
    program = folder / "peer.py"
    program.write_text(PEER.format(conf=str(ROOT / "conf")))
    hydra = (
        str(program),
        "-m",
        "hydra/sweeper=basic",
        "hydra.sweep.subdir=${hydra.job.num}",
    )

    ways = {
        "headroom": (
            "sweep.py",
            "-m",
            f"hydra.launcher.slots={SLOTS}",
            "paths.outputs={}",
        ),
        "hydra basic": (*hydra, "hydra/launcher=basic", "hydra.sweep.dir={}"),
    }
    if peers and present("hydra_plugins.hydra_joblib_launcher"):
        joblib = (
            "hydra/launcher=joblib",
            f"hydra.launcher.n_jobs={SLOTS}",
            "hydra.sweep.dir={}",
        )
        ways["hydra joblib"] = (*hydra, *joblib)

    rows = []
    for name, (*command, target) in ways.items():
        seconds = {}
        for runs in (few, many):
            into = folder / f"{name} {runs}".replace(" ", "-")
            seconds[runs] = call(
                *command, target.format(into), f"seed=range(0,{runs})", *NO_OP
            )
        each = (seconds[many] - seconds[few]) / (many - few)
        rows.append((name, f"{each:.3f}", f"{seconds[few]:.1f}"))

    title = f"{many:,} runs that train nothing, {SLOTS} at a time"
    return table((title, "wall s a run", f"whole sweep of {few} runs, wall s"), rows)


def planning(folder: Path, heads: tuple[int, ...]) -> str:
    """Time dry runs of grids, and return a table. In a grid, no two models have the same size.

    For each number n in `heads`, one grid has models with 1 to n heads and 100 feed-forward sizes.
    """
    rows = []
    for most in heads:
        grid = (
            f"model.heads=range(1,{most + 1})",
            "model.feedforward_size=range(8,808,8)",
        )
        options = (
            "model.head_size=8",
            "hydra.sweeper.dry_run=true",
            f"paths.outputs={folder}",
        )
        rows.append(
            (f"{100 * most:,}", f"{call('sweep.py', '-m', *grid, *options):.1f}")
        )
    return table(("points", "dry run, wall s"), rows)


if __name__ == "__main__":
    main()
