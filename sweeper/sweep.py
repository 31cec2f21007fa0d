"""One sweep from a command line to its figures: plan, freeze, prepare, run, collect, draw."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.text import Text

from sweeper.cli.arguments import Terminal
from sweeper.decide import check_claims, decide, pilot, show_prices
from sweeper.options import SweepOptions
from sweeper.plan.compose import Composer
from sweeper.plan.plan import Plan
from sweeper.plan.planner import Planner
from sweeper.plan.show import print_cost, print_plan
from sweeper.publish import print_everything
from sweeper.results.draw import import_figures
from sweeper.run.backend import Backend, BackendContext, Resources
from sweeper.run.slurm_job import DRIVER_CODE
from sweeper.run.stop import STOPS, StopSignals
from sweeper.size_server import SizeServer, size_server
from sweeper.store import registry
from sweeper.store.code import Code
from sweeper.store.errors import sanitize
from sweeper.store.plans import older, replaced
from sweeper.store.runs import RunStore, State
from sweeper.train import Executor, as_data, freeze
from sweeper.tune import Tuning, budgets, spent, tune


class Launcher(NamedTuple):
    """A backend by the name that `hydra/launcher` gives, and the `hydra.launcher` section."""

    name: str
    options: Any


def sweep(
    arguments: Sequence[str], *, composer: Composer, options: SweepOptions, launcher: Launcher
) -> int:
    """Plan the command line and bring everything it needs into being; the exit code.

    Args:
        arguments: overrides as typed, swept ones included.
        composer: of the configs that the command line is about.
        options: the `hydra.sweeper` section.
        launcher: where runs execute.

    Returns:
        0 only if every run of the plan is done (or, in a dry run, could be planned); 1 if not;
        130 after Ctrl-C and 143 after SIGTERM: what ran was saved.

    Raises:
        UserError: nothing was started.
    """
    console = Terminal(highlight=False, width=None if sys.stdout.isatty() else 160)
    with (
        StopSignals(() if DRIVER_CODE in os.environ else STOPS) as signals,
        size_server() as process,
    ):
        code = Code.read(Path(os.environ.get(DRIVER_CODE, registry.ROOT)))
        if not options.dry_run:
            import_figures()  # the model process imports PyTorch, which takes longer
        plan = Planner(composer, process, max_runs=options.max_runs).plan(arguments)
        check_claims(plan)
        store = RunStore(plan.outputs)
        tuning = Tuning.of(plan, process, store)
        backend = _backend(tuning.whole, launcher, process)
        executor = Executor(console, store, process, backend, options, signals, code)
        estimate = _show(executor, tuning)
        if options.dry_run:
            show_prices(executor, tuning.judged or plan, estimate)
        if options.dry_run or _submit_driver(executor, tuning, estimate, launcher):
            return 0
        judged = tune(executor, tuning)
        done = judged is not None and _train(executor, judged, estimate)
    ended = tuning.whole if judged else tuning.trials
    print_everything(console, ended.outputs, list(ended.experiments))
    _say(console, spent(tuning, store))
    return 0 if done else 1


def _submit_driver(
    executor: Executor, tuning: Tuning, estimate: Mapping[str, float], launcher: Launcher
) -> bool:
    """Submit the sweep itself as a job if the user asks for it and anything is left to do.

    Return whether it was submitted. Its runs are ready to begin then.
    """
    if DRIVER_CODE in os.environ or not getattr(launcher.options, "leave", False):
        return False
    plan, rounds = tuning.judged or tuning.trials, executor.options.decide or executor.options.pilot
    left = executor.left(plan)
    if left:
        freeze(plan, executor.store, {run: estimate[run] for run in left if run in estimate})
        executor.ready(plan, left)
    if left or rounds:
        command = [sys.executable, str(registry.ROOT / "sweep.py"), *sys.argv[1:]]
        _say(executor.console, [executor.backend.submit_driver(command)])
    return bool(left or rounds)


def _train(executor: Executor, plan: Plan, estimate: Mapping[str, float]) -> bool:
    """Train what is judged, by rounds if it is to decide; whether all of it is done.

    `estimate`: seconds that runs are thought to train; of what was just chosen it knows nothing.
    """
    if executor.options.pilot:
        return pilot(executor, plan)
    left = executor.left(plan)
    if not estimate.keys() >= {*left}:
        estimate = _print_cost(executor, plan, left)
    estimate = {run: estimate[run] for run in left}
    if executor.options.decide:
        return decide(executor, plan, estimate)
    return executor.train(plan, left, estimate=estimate)


def _say(console: Console, lines: Iterable[str]) -> None:
    for line in lines:
        console.print(Text(line), soft_wrap=True)


def _show(executor: Executor, tuning: Tuning) -> dict[str, float]:
    """Print the plan and what it will cost there; the seconds each run is thought to train."""
    console, plan = executor.console, tuning.whole
    statuses = {run: executor.store.run(run).status() for run in plan.runs}
    every_point = executor.options.dry_run or len(plan.points) <= 60
    print_plan(console, plan, statuses, every_point=every_point)
    left = [run for run in plan.runs if statuses[run].state is not State.DONE]
    estimate = _print_cost(executor, plan, left)
    _say(console, budgets(tuning))
    for name, number in replaced(plan.outputs, as_data(plan)).items():
        words = f"{name}: plan {number} has other points under this name; what was made of it stays"
        remedy = f"as {older(name, number)}. name=... gives this one a name of its own."
        console.print(Text(sanitize(f"{words}, {remedy}", 400)), soft_wrap=True)
    return estimate


def _print_cost(executor: Executor, plan: Plan, left: Sequence[str]) -> dict[str, float]:
    """Print what the runs that are left of a plan will cost; the seconds each will train."""
    throughput, runs = executor.throughput(plan), [plan.runs[run] for run in left]
    if left:
        seconds = executor.seconds(plan, left, throughput)
        slots, measured = executor.backend.slots, throughput.measured
        print_cost(executor.console, runs, seconds, slots=slots, measured=measured)
    return {run.id: throughput.expected(run).training for run in runs}


def _backend(plan: Plan, launcher: Launcher, process: SizeServer) -> Backend:
    """The backend that `hydra/launcher` names."""
    configs = [run.config for run in plan.runs.values()]
    context = BackendContext(
        options=launcher.options,
        resources=frozenset(Resources.of(config) for config in configs),
        logger=configs[0]["logger"]["name"],
        outputs=plan.outputs,
        process=process,
    )
    made = registry.function(registry.BACKENDS, launcher.name, "hydra/launcher", "backend")
    backend: Backend = made(context)
    return backend
