"""One sweep from a command line to its figures: plan, freeze, prepare, run, collect, draw."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import Console
from rich.text import Text

from sweeper.executor import Executor, as_data
from sweeper.model_process import ModelProcess, model_process
from sweeper.options import SweepOptions
from sweeper.outcome import print_everything, print_refused
from sweeper.plan.compose import Composer
from sweeper.plan.gpu_memory import is_for_gpus, predicted
from sweeper.plan.plan import Plan
from sweeper.plan.planner import Planner
from sweeper.plan.show import print_cost, print_plan
from sweeper.results.collect import Records
from sweeper.results.draw import import_figures
from sweeper.results.prices import print_prices
from sweeper.rounds import decide
from sweeper.run.backend import Backend
from sweeper.run.context import BackendContext, Resources
from sweeper.run.stop import StopSignals
from sweeper.store import registry
from sweeper.store.runs import RunStore, State, Status
from sweeper.tuning import Tuning, budgets, spent, tune


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
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    with StopSignals() as signals, model_process() as process:
        if not options.dry_run:
            import_figures()  # the model process imports PyTorch, which takes longer
        plan = Planner(composer, process, max_runs=options.max_runs).plan(arguments)
        store = RunStore(plan.outputs)
        tuning = Tuning.of(plan, process, store)
        whole = tuning.whole
        backend = _backend(whole, launcher, process)
        executor = Executor(console, store, process, backend, options, signals)
        statuses = {run: store.run(run).status() for run in whole.runs}
        needs = _needs(whole, launcher, process, shown=options.dry_run)
        estimate = _show(executor, whole, statuses, needs)
        for line in budgets(tuning):
            console.print(Text(line), soft_wrap=True)
        if options.dry_run:
            print_prices(console, Records(store).tables(as_data(tuning.judged or plan)))
            return 0
        judged = tune(executor, tuning)
        if judged and tuning.tunes:
            statuses = {run: store.run(run).status() for run in judged.runs}
            estimate = _print_cost(executor, judged, statuses)
        done = judged is not None and _train(executor, judged, statuses, estimate)
    print_everything(
        console, plan.outputs, list((tuning.whole if judged else tuning.trials).experiments)
    )
    for line in spent(tuning, store):
        console.print(Text(line), soft_wrap=True)
    return 0 if done else 1


def _train(
    executor: Executor, plan: Plan, statuses: Mapping[str, Status], estimate: Mapping[str, float]
) -> bool:
    """Train what is judged, by rounds if it is to decide; whether all of it is done."""
    if executor.options.decide:
        return decide(executor, plan, estimate)
    left = [run for run in plan.runs if statuses[run].state is not State.DONE]
    return executor.train(plan, left, estimate=estimate)


def _needs(
    plan: Plan, launcher: Launcher, process: ModelProcess, *, shown: bool
) -> dict[str, float]:
    """The GB of GPU memory of each run, where it is shown or limited; UserError if it is more."""
    limit = getattr(launcher.options, "gpu_memory_gb", None)
    asked = limit is not None or (shown and is_for_gpus(plan))
    return predicted(process, plan, limit) if asked else {}


def _show(
    executor: Executor, plan: Plan, statuses: Mapping[str, Status], needs: Mapping[str, float]
) -> dict[str, float]:
    """Print the plan and what it will cost there; the seconds each run is thought to train."""
    console, every_point = executor.console, executor.options.dry_run or len(plan.points) <= 60
    print_plan(console, plan, statuses, needs, every_point=every_point)
    estimate = _print_cost(executor, plan, statuses)
    configs = {run.id: run.config for run in plan.runs.values()}
    print_refused(console, as_data(plan), configs)
    return estimate


def _print_cost(executor: Executor, plan: Plan, statuses: Mapping[str, Status]) -> dict[str, float]:
    slots, throughput = executor.backend.slots, executor.throughput(plan)
    return print_cost(executor.console, plan, statuses, slots=slots, throughput=throughput)


def _backend(plan: Plan, launcher: Launcher, process: ModelProcess) -> Backend:
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
