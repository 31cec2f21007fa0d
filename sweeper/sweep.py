"""One sweep from a command line to its figures: plan, tune, train, decide, publish."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.text import Text

from sweeper.cli.terminal import Terminal
from sweeper.decide import check_claims, decide, pilot, show_prices
from sweeper.options import SweepOptions
from sweeper.plan.compose import Composer
from sweeper.plan.plan import Plan
from sweeper.plan.planner import Planner
from sweeper.plan.show import print_plan
from sweeper.publish import print_everything
from sweeper.results.draw import import_figures
from sweeper.run.backend import BackendContext, Resources
from sweeper.run.slurm_job import DRIVER_CODE
from sweeper.run.stop import STOPS, StopSignals
from sweeper.size_server import size_server
from sweeper.store import registry
from sweeper.store.code import Code
from sweeper.store.errors import sanitize
from sweeper.store.plans import older, replaced
from sweeper.store.runs import RunStore, State
from sweeper.train import Executor, as_data, freeze
from sweeper.tune import Tuning, budgets, spent, tune


class Launcher(NamedTuple):
    """A backend by its name in `hydra/launcher`, and the `hydra.launcher` section."""

    name: str
    options: Any


def sweep(
    arguments: Sequence[str], *, composer: Composer, options: SweepOptions, launcher: Launcher
) -> int:
    """Plan the command line, train what is missing, publish the results; return the exit code.

    Args:
        arguments: overrides as typed, swept ones included.
        composer: of the configs that the command line is about.
        options: the `hydra.sweeper` section.
        launcher: where runs execute.

    Returns:
        0 if every run of the plan is done (in a dry run: can be planned), else 1; 130 after Ctrl-C
        and 143 after SIGTERM, which save the running jobs.

    Raises:
        UserError: nothing was started.
    """
    console = Terminal(highlight=False, width=None if sys.stdout.isatty() else 160)
    driver = os.environ.get(DRIVER_CODE)  # set if this sweep is itself a job of a cluster
    with StopSignals(() if driver else STOPS) as signals, size_server() as process:
        code = Code.read(Path(driver or registry.ROOT))
        if not options.dry_run:
            import_figures()  # while the size server imports PyTorch, which takes longer
        plan = Planner(composer, process, max_runs=options.max_runs).plan(arguments)
        check_claims(plan)
        store = RunStore(plan.outputs)
        tuning = Tuning.of(plan, process, store)
        configs = [run.config for run in tuning.whole.runs.values()]
        make = registry.function(registry.BACKENDS, launcher.name, "hydra/launcher", "backend")
        backend = make(
            BackendContext(
                options=launcher.options,
                resources=frozenset(Resources.of(config) for config in configs),
                logger=configs[0]["logger"]["name"],
                outputs=plan.outputs,
                process=process,
            )
        )
        executor = Executor(console, store, process, backend, options, signals, code)
        estimate = _show(executor, tuning)
        if options.dry_run:
            show_prices(executor, tuning.judged or plan, estimate)
            return 0
        if getattr(launcher.options, "leave", False) and not driver:
            ready, rounds = tuning.judged or tuning.trials, options.decide or options.pilot
            left = executor.left(ready)
            if left:
                freeze(ready, store, {run: estimate[run] for run in left if run in estimate})
                executor.ready(ready, left)
            if left or rounds:
                command = [sys.executable, str(registry.ROOT / "sweep.py"), *sys.argv[1:]]
                console.print(Text(backend.submit_driver(command)), soft_wrap=True)
                return 0
        judged = tune(executor, tuning)
        done = judged is not None and _train(executor, judged, estimate)
    ended = tuning.whole if judged else tuning.trials
    print_everything(console, ended.outputs, list(ended.experiments))
    for line in spent(tuning, store):
        console.print(Text(line), soft_wrap=True)
    return 0 if done else 1


def _train(executor: Executor, plan: Plan, estimate: Mapping[str, float]) -> bool:
    """Train the judged runs, in rounds if the sweep decides; return whether all are done.

    `estimate`: expected seconds of training; runs that tuning has just chosen are not in it.
    """
    if executor.options.pilot:
        return pilot(executor, plan)
    left = executor.left(plan)
    if not estimate.keys() >= {*left}:
        estimate = executor.print_cost(plan, left)
    estimate = {run: estimate[run] for run in left}
    if executor.options.decide:
        return decide(executor, plan, estimate)
    return executor.train(plan, left, estimate=estimate)


def _show(executor: Executor, tuning: Tuning) -> dict[str, float]:
    """Print the plan and its cost; return the expected seconds of training of each run."""
    console, plan = executor.console, tuning.whole
    statuses = {run: executor.store.run(run).status() for run in plan.runs}
    every_point = executor.options.dry_run or len(plan.points) <= 60
    print_plan(console, plan, statuses, every_point=every_point)
    left = [run for run in plan.runs if statuses[run].state is not State.DONE]
    estimate = executor.print_cost(plan, left)
    for line in budgets(tuning):
        console.print(Text(line), soft_wrap=True)
    for name, number in replaced(plan.outputs, as_data(plan)).items():
        words = f"{name}: plan {number} has other points under this name; its results stay"
        remedy = f"as {older(name, number)}. name=... gives this one a name of its own."
        console.print(Text(sanitize(f"{words} {remedy}", 400)), soft_wrap=True)
    return estimate
