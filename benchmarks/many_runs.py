"""Measure the commands that read many finished runs: `python -m benchmarks.many_runs`.

One run is trained; the others of its grid get its result and its curve, so that every file is there
and valid. CPU seconds of whole commands, as a person types them.
"""

import shutil
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.measure import call, cpu_seconds, measured_on, smoke, table

if __name__ == "__main__":
    smoke(__doc__)  # answers --help at once

from sweeper.hydra_section import composer
from sweeper.plan.compose import CONF
from sweeper.plan.plan import Plan
from sweeper.plan.planner import Planner
from sweeper.size_server import SizeServer
from sweeper.store.runs import RunStore
from sweeper.train import freeze

TINY = (
    *("model.embedding_size=8", "model.head_size=8", "trainer.steps=60"),
    *("optimizer.warmup_steps=5", "logger=none"),
)
COMMANDS = ("status", "collect", "draw", "report")


def grid(outputs: Path, heads: str, widths: str, seeds: str) -> list[str]:
    """Return the overrides of a grid of tiny language models."""
    axes = (f"model.heads={heads}", f"model.feedforward_size={widths}", f"seed={seeds}")
    return [*axes, *TINY, f"paths.outputs={outputs}"]


def finish(plan: Plan) -> None:
    """Give every run of a plan the result and the curve of the one that was trained."""
    store = RunStore(plan.outputs)
    freeze(plan, store, {})
    [trained] = [run for run in map(store.run, plan.runs) if run.result()]
    result = trained.result() or {}
    given = {key: value for key, value in result.items() if key not in ("id", "attempt")}
    first = trained.attempt(result["attempt"])
    for run in map(store.run, plan.runs):
        if run.result():
            continue
        attempt = run.claim({})
        for path in (first.metrics_path, first.log_path):
            shutil.copy(path, attempt.path)
        run.publish_result(attempt, given)
        attempt.finish("done")


def measured(folder: Path, runs: int, rounds: int) -> list[str]:
    """Return a row of the table: the least CPU seconds of each command, and the page's size.

    `runs` is a multiple of 100.
    """
    outputs = folder / str(runs)
    typed = grid(outputs, f"range(1,{runs // 100 + 1})", "range(8,88,8)", "range(0,10)")
    call("sweep.py", "-m", *grid(outputs, "1", "8", "0"))
    with closing(SizeServer()) as process:
        finish(Planner(composer(CONF), process, max_runs=runs).plan(typed))
    commands = [["-m", "sweeper", name, f"--outputs={outputs}"] for name in COMMANDS]
    commands.append(["sweep.py", "-m", *typed])
    cpu_seconds(*commands[-1])  # draws what later ones find drawn
    least = [min(cpu_seconds(*command) for _ in range(rounds)) for command in commands]
    page = (outputs / "report.html").stat().st_size / 1e6
    return [f"{runs:,}", *(f"{seconds:.2f}" for seconds in least), f"{page:.2f}"]


def main() -> None:
    """Measure and print the table."""
    tiny = smoke(__doc__)
    with TemporaryDirectory() as folder:
        sizes = (100,) if tiny else (100, 1000, 10_000)
        rows = [measured(Path(folder), runs, 1 if tiny else 3) for runs in sizes]
    head = ("finished runs", *(f"{name}, CPU s" for name in COMMANDS))
    print(table((*head, "the same sweep again, CPU s", "page, MB"), rows))
    print(f"\n{measured_on()}")


if __name__ == "__main__":
    main()
