"""One sweep from a command line to its figures: plan, freeze, prepare, run, collect, draw."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rich.text import Text

from sweeper.arguments import Terminal
from sweeper.executor import Executor, as_data, check_claims
from sweeper.model_process import ModelProcess, model_process
from sweeper.options import SweepOptions
from sweeper.outcome import print_everything
from sweeper.plan.compose import Composer
from sweeper.plan.gpu_memory import is_for_gpus, predicted
from sweeper.plan.plan import Plan
from sweeper.plan.planner import Planner
from sweeper.plan.show import Need, print_cost, print_plan
from sweeper.results.draw import import_figures
from sweeper.rounds import decide, pilot, show_prices
from sweeper.run.backend import Backend
from sweeper.run.context import BackendContext, Resources
from sweeper.run.placing import most_together
from sweeper.run.stop import StopSignals
from sweeper.store import registry
from sweeper.store.errors import shown
from sweeper.store.plans import older, replaced
from sweeper.store.runs import RunStore, State, Status


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
    with StopSignals() as signals, model_process() as process:
        if not options.dry_run:
            import_figures()  # the model process imports PyTorch, which takes longer
        plan = Planner(composer, process, max_runs=options.max_runs).plan(arguments)
        check_claims(plan)
        store = RunStore(plan.outputs)
        backend = _backend(plan, launcher, process)
        executor = Executor(console, store, process, backend, options, signals)
        statuses = {run: store.run(run).status() for run in plan.runs}
        needs = _needs(executor, plan, launcher)
        estimate = _show(executor, plan, statuses, needs)
        if options.dry_run:
            show_prices(executor, plan, estimate)
            return 0
        done = _train(executor, plan, statuses, estimate)
    print_everything(console, plan.outputs, list(plan.experiments))
    return 0 if done else 1


def _train(
    executor: Executor, plan: Plan, statuses: Mapping[str, Status], estimate: Mapping[str, float]
) -> bool:
    """Train what is judged, by rounds if it is to decide; whether all of it is done."""
    if executor.options.pilot:
        return pilot(executor, plan)
    if executor.options.decide:
        return decide(executor, plan, estimate)
    left = [run for run in plan.runs if statuses[run].state is not State.DONE]
    return executor.train(plan, left, estimate=estimate)


def _needs(executor: Executor, plan: Plan, launcher: Launcher) -> dict[str, Need]:
    """What each run takes of a GPU, where it is shown or limited; UserError if it is too much."""
    limit = getattr(launcher.options, "gpu_memory_gb", None)
    if limit is None and not (executor.options.dry_run and is_for_gpus(plan)):
        return {}
    if not (memory := predicted(executor.process, plan, limit)):
        return {}
    throughput = executor.throughput(plan, "gpu")
    return {
        run.id: Need(memory.get(run.id), sum(throughput.expected(run)))
        for run in plan.runs.values()
    }


def _show(
    executor: Executor, plan: Plan, statuses: Mapping[str, Status], needs: Mapping[str, Need]
) -> dict[str, float]:
    """Print the plan and what it will cost there; the seconds each run is thought to train."""
    console, every_point = executor.console, executor.options.dry_run or len(plan.points) <= 60
    print_plan(console, plan, statuses, needs, every_point=every_point)
    left = [run for run in plan.runs.values() if statuses[run.id].state is not State.DONE]
    throughput = executor.throughput(plan)
    if left:
        seconds = executor.seconds(plan, [run.id for run in left], throughput)
        slots, measured = executor.backend.slots, throughput.measured
        print_cost(console, left, seconds, slots=slots, measured=measured)
    for name, number in replaced(plan.outputs, as_data(plan)).items():
        words = f"{name}: plan {number} has other points under this name; what was made of it stays"
        remedy = f"as {older(name, number)}. name=... gives this one a name of its own."
        console.print(Text(shown(f"{words}, {remedy}", 400)), soft_wrap=True)
    return {run.id: throughput.expected(run).training for run in left}


def _backend(plan: Plan, launcher: Launcher, process: ModelProcess) -> Backend:
    """The backend that `hydra/launcher` names."""
    configs = [run.config for run in plan.runs.values()]
    context = BackendContext(
        options=launcher.options,
        resources=frozenset(Resources.of(config) for config in configs),
        logger=configs[0]["logger"]["name"],
        outputs=plan.outputs,
        process=process,
        together=max(most_together(run.step_flops) for run in plan.runs.values()),
    )
    made = registry.function(registry.BACKENDS, launcher.name, "hydra/launcher", "backend")
    backend: Backend = made(context)
    return backend
