"""One sweep from a command line to its figures: plan, freeze, prepare, run, collect, draw."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, NamedTuple

from rich.console import Console
from rich.text import Text

from sweeper.model_process import ModelProcess, model_process
from sweeper.options import SweepOptions
from sweeper.outcome import print_everything, print_refused, relative_path
from sweeper.plan.compose import Composer
from sweeper.plan.gpu_memory import is_for_gpus, predicted
from sweeper.plan.plan import Plan, Run
from sweeper.plan.planner import Planner
from sweeper.plan.show import ASSUMED_RATE, print_cost, print_plan
from sweeper.plan.throughput import Throughput
from sweeper.preparation import prepare
from sweeper.results.draw import import_figures
from sweeper.run.backend import Backend
from sweeper.run.context import BackendContext, Resources
from sweeper.run.job_states import Job, Phase
from sweeper.run.live import LiveTable, Shown
from sweeper.run.schedule import Schedule
from sweeper.run.stop import Stopped, StopSignals
from sweeper.store import registry
from sweeper.store.errors import shown
from sweeper.store.identity import NOT_IN_IDENTITY
from sweeper.store.plans import write_plan
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
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 160)
    with StopSignals() as signals, model_process() as process:
        if not options.dry_run:
            import_figures()  # the model process imports PyTorch, which takes longer
        plan = Planner(composer, process, max_runs=options.max_runs).plan(arguments)
        store = RunStore(plan.outputs)
        statuses = {run: store.run(run).status() for run in plan.runs}
        backend = _backend(plan, launcher, process)
        needs = _needs(plan, launcher, process, shown=options.dry_run)
        estimate = _show(console, plan, store, backend, statuses, needs, options.dry_run)
        if options.dry_run:
            return 0
        freeze(plan, store, estimate)
        left = [run for run in plan.runs if statuses[run].state is not State.DONE]
        if left:
            configs = {run: plan.runs[run].config for run in left}
            prepare(console, store, process, configs, meanwhile=backend.warm)
            scheduled = _scheduled(store, backend, options, signals)
            with signals.held():
                done = _run(console, plan, store, left, scheduled)
    print_everything(console, plan.outputs, list(plan.experiments))
    return 0 if not left or done else 1


def _needs(
    plan: Plan, launcher: Launcher, process: ModelProcess, *, shown: bool
) -> dict[str, float]:
    """The GB of GPU memory of each run, where it is shown or limited; UserError if it is more."""
    limit = getattr(launcher.options, "gpu_memory_gb", None)
    asked = limit is not None or (shown and is_for_gpus(plan))
    return predicted(process, plan, limit) if asked else {}


def _show(
    console: Console,
    plan: Plan,
    store: RunStore,
    backend: Backend,
    statuses: Mapping[str, Status],
    needs: Mapping[str, float],
    every_point: bool,
) -> dict[str, float]:
    """Print the plan and what it will cost there; the seconds each run is thought to train."""
    print_plan(console, plan, statuses, needs, every_point=every_point or len(plan.points) <= 60)
    estimate = print_cost(
        console,
        plan,
        statuses,
        slots=backend.slots,
        throughput=Throughput(_trained(plan, store), ASSUMED_RATE[backend.device]),
    )
    configs = {run.id: run.config for run in plan.runs.values()}
    print_refused(console, as_data(plan, estimate), configs)
    return estimate


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


def _trained(plan: Plan, store: RunStore) -> Iterator[tuple[Run, float]]:
    """The finished runs of this plan, and the seconds each of them trained."""
    for run in plan.runs.values():
        result = store.run(run.id).result()
        if result and result.get("seconds"):
            yield run, result["seconds"]


def freeze(plan: Plan, store: RunStore, estimate: Mapping[str, float]) -> None:
    """Write every record and the plan, before anything starts."""
    store.check_writable()
    for run in plan.runs.values():
        record = {"id": run.id, "config": run.config, "size": run.size, "names": run.names}
        store.freeze(record, apart_from=NOT_IN_IDENTITY)
    write_plan(plan.outputs, as_data(plan, estimate))


def as_data(plan: Plan, estimate: Mapping[str, float]) -> dict[str, Any]:
    """The plan as plain data, which the stages after it read."""
    return {
        "command": sys.argv,
        "scale": plan.scale,
        "experiments": {
            name: {**e.described(), "scale": plan.scale, "text": plan.texts[name]}
            for name, e in plan.experiments.items()
        },
        "points": [asdict(point) for point in plan.points],
        "runs": {run.id: {"size": run.size, "parent": run.parent} for run in plan.runs.values()},
        "estimate": estimate,
    }


def _scheduled(
    store: RunStore, backend: Backend, options: SweepOptions, signals: StopSignals
) -> Callable[..., Schedule]:
    """A schedule that lacks its jobs and whom to tell what they do."""
    return partial(
        Schedule,
        store,
        backend,
        policy=options,
        watchdog=options.watchdog(),
        check_for_stop=signals.check,
    )


def _run(
    console: Console,
    plan: Plan,
    store: RunStore,
    left: Sequence[str],
    scheduled: Callable[..., Schedule],
) -> bool:
    """Train the runs that are left; whether all are done."""
    metric = {point.run: plan.experiments[point.experiment].metric for point in plan.points}
    shown = {run: Shown(_label(plan, run), plan.runs[run].flops, metric[run]) for run in left}
    jobs = [Job(run, plan.runs[run].flops, plan.runs[run].parent) for run in left]
    with LiveTable(console, store, shown) as live:
        schedule = scheduled(jobs=jobs, changed=live.changed)
        try:
            done = schedule.execute()
        except Stopped as stopped:
            console.print(f"{stopped}: what ran was saved. The same command again continues.")
            raise SystemExit(stopped.code) from None
    unfinished = [e for e in schedule.states.values() if e.phase is not Phase.DONE]
    if unfinished:
        console.print(
            Text(f"{len(unfinished)} of {len(left)} runs are not done:", style="bold red")
        )
    if schedule.breaker.tripped:
        waiting = sum(state.phase is Phase.WAITING for state in unfinished)
        console.print(Text(f"  {waiting} were not started: {schedule.breaker.tripped}"))
    for state in (state for state in unfinished if state.phase is not Phase.WAITING):
        status: Status = store.run(state.job.run).status()
        log = store.run(state.job.run).path / "attempts" / f"{status.attempt:04d}" / "log.txt"
        told = f", log: {relative_path(log)}" if status.attempt else ""
        console.print(Text(f"  {shown[state.job.run].label}: {state.reason}{told}"))
    return done


def _label(plan: Plan, run: str) -> str:
    names = plan.runs[run].names
    return shown(f"{names['experiment']}/{names['arm']} {names['label']}")
