"""One sweep from a command line to its figures: plan, choose, train or decide, publish.

The stages of a sweep are plans. If an experiment is tuned, trials choose its values first. Then the
judged runs are trained, in rounds if the sweep decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rich.text import Text

from sweeper.cli.terminal import Terminal
from sweeper.overview import Overview
from sweeper.plan.compose import Composer
from sweeper.plan.plan import Plan
from sweeper.plan.planner import Planner
from sweeper.run.backend import Backend, BackendContext, Resources
from sweeper.run.options import SweepOptions
from sweeper.run.stop import STOPS, StopSignals
from sweeper.size_server import SizeServer, size_server
from sweeper.store import registry
from sweeper.store.changes import Changes
from sweeper.store.code import Code
from sweeper.store.errors import invalid_value
from sweeper.store.runs import RunStore

# Imported where they are used: a dry run needs neither the scheduler nor statistics.
if TYPE_CHECKING:
    from sweeper.train import Executor
    from sweeper.tune import Tuning


@dataclass
class Untuned:
    """The first stage of a sweep that has nothing to choose."""

    judged: Plan

    def __post_init__(self) -> None:
        self.trials = self.whole = self.judged

    def budgets(self) -> Iterable[str]:
        return ()

    def choose(self, executor: Executor) -> Plan:
        return self.judged

    def spent(self) -> Iterable[str]:
        return ()


def sweep(
    arguments: Sequence[str],
    *,
    composer: Composer,
    options: SweepOptions,
    launcher: str,
    launcher_options: Any,
    verbose: bool = False,
) -> int:
    """Plan the command line, train what is missing, publish the results; return the exit code.

    `arguments` are the overrides as typed, `options` and `launcher_options` the sections
    `hydra.sweeper` and `hydra.launcher`; `verbose` lists every point of a plan.

    Returns:
        0 if every run of the plan is done (in a dry run: can be planned) and its records can be
        read, else 1; 130 after Ctrl-C and 143 after SIGTERM, which save the running jobs.

    Raises:
        UserError: nothing was started.
    """
    console = Terminal()
    with StopSignals(STOPS) as signals, closing(size_server()) as process:
        process.code = registry.ROOT  # until the code of the sweep is pinned
        code = Code.read(registry.ROOT)
        plan = Planner(composer, process, max_runs=options.max_runs).plan(arguments)
        plan = replace(plan, accept_mixed_code=options.accept_mixed_code)
        _check_options(options, plan)
        store = RunStore(plan.outputs)
        stage = _first_stage(plan, process, store)
        backend = _backend(stage.whole, process, launcher, launcher_options)
        changes = Changes.of(plan.outputs, code)
        overview = Overview(console, store, backend, options, changes)
        chosen = stage.judged
        estimate = overview.show(
            stage.whole, stage.budgets(), final=chosen is not None, verbose=verbose
        )
        if options.dry_run:
            if plan.claims:
                overview.print_prices(chosen or plan, estimate)
            return 0
        if options.plan_only:
            from sweeper.elsewhere import plan_elsewhere

            ready = chosen or stage.trials
            plan_elsewhere(console, ready, store, process, code, estimate)
            return 0

        from sweeper.publish import print_everything
        from sweeper.train import Executor

        executor = Executor(console, store, process, backend, options, signals, code)
        judged = stage.choose(executor)
        if judged and not chosen:
            overview.print_replaced(judged)
            estimate = overview.print_cost(judged, executor.left(judged))
        done = judged is not None and _train(executor, judged, estimate)
    ended = stage.whole if judged else stage.trials
    readable = print_everything(console, ended.outputs, [*ended.experiments])
    for line in stage.spent():
        console.print(Text(line), soft_wrap=True)
    return 0 if done and readable else 1


def _check_options(options: SweepOptions, plan: Plan) -> None:
    """Raise UserError for options that exclude each other, and for claims that cannot be judged."""
    if options.decide and options.plan_only:
        expected = (
            "false with hydra.sweeper.plan_only=true, since rounds follow from results"
        )
        remedy = "plan the first round without it"
        raise invalid_value("hydra.sweeper.decide", "true", expected, remedy)
    if options.retrain and options.plan_only:
        expected = "null with hydra.sweeper.plan_only=true, which keeps finished runs"
        remedy = "train them again here, or plan into another hydra.sweep.dir"
        raise invalid_value("hydra.sweeper.retrain", options.retrain, expected, remedy)
    if options.decide and not plan.claims:
        expected = "an experiment with claims"
        remedy = "choose one, as in experiment=fig1 (a grid has no claims), or leave this out"
        raise invalid_value("hydra.sweeper.decide", "true", expected, remedy)
    if plan.claims or options.until:
        from sweeper.decide import check_claims

        check_claims(plan, options.until)


def _first_stage(plan: Plan, process: SizeServer, store: RunStore) -> Tuning | Untuned:
    """Return the stage that chooses the tuned values of a plan."""
    if not plan.tuned:
        return Untuned(plan)
    from sweeper.tune import Tuning

    return Tuning.of(plan, process, store)


def _backend(plan: Plan, process: SizeServer, launcher: str, options: Any) -> Backend:
    """Return the backend of a launcher for the runs of a plan."""
    configs = [run.config for run in plan.runs.values()]
    make = registry.function(registry.BACKENDS, launcher, "hydra/launcher", "backend")
    context = BackendContext(
        options=options,
        resources=frozenset(map(Resources.of, configs)),
        logger=configs[0]["logger"]["name"],
        outputs=plan.outputs,
        process=process,
    )
    backend: Backend = make(context)
    return backend


def _train(executor: Executor, plan: Plan, estimate: Mapping[str, float]) -> bool:
    """Train the judged runs, in rounds if the sweep decides; return whether all are done.

    `estimate`: expected seconds of training, by run; empty before anything is measured.
    """
    from sweeper.decide import decide

    left = executor.left(plan)
    estimate = {run: estimate.get(run, 0.0) for run in left}
    if executor.options.decide:
        return decide(executor, plan, estimate)
    return executor.train(plan, left, estimate=estimate)
