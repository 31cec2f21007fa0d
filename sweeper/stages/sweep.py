"""One sweep, from its command line to its figures: plan, tune, train, publish.

If an experiment is tuned, the sweep first trains trials, the runs that choose hyperparameters. Then
it trains the judged runs, whose results it publishes. Trials and judged runs have separate plans.
With `hydra.sweeper.decide`, the judged runs are trained in rounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from sweeper.plan.compose import Composer
from sweeper.plan.plan import Plan
from sweeper.plan.planner import Planner
from sweeper.run.backend import Backend, BackendContext, Resources
from sweeper.run.options import SweepOptions
from sweeper.run.stop import StopSignals
from sweeper.size_server import SizeServer, size_server
from sweeper.stages.overview import Overview
from sweeper.stages.terminal import Terminal
from sweeper.store import registry
from sweeper.store.changes import Changes
from sweeper.store.code import Code
from sweeper.store.errors import UserError
from sweeper.store.runs import RunStore

# Import these modules inside functions, so that a dry run starts without scheduler and statistics.
if TYPE_CHECKING:
    from sweeper.stages.train import Executor
    from sweeper.stages.tune import Tuning


@dataclass
class Untuned:
    """A replacement for `tune.Tuning` in a sweep without tuning: `judged` is the only plan."""

    judged: Plan

    def __post_init__(self) -> None:
        self.trials = self.whole = self.judged

    def budgets(self) -> Iterable[str]:
        return ()

    def choose(self, executor: Executor) -> Plan:
        return self.judged


def sweep(
    arguments: Sequence[str],
    *,
    composer: Composer,
    options: SweepOptions,
    launcher: str,
    launcher_options: Any,
    verbose: bool = False,
) -> int:
    """Plan the runs of a command line, train those that are not done, and publish the results.

    Args:
        arguments: the overrides of the command line.
        composer: the interface to Hydra's config loader.
        options: the section `hydra.sweeper`.
        launcher: the name of the backend, such as "local".
        launcher_options: the section `hydra.launcher`.
        verbose: whether to list every point of a large plan.

    Returns:
        The exit code. It is 0 if every run of the plan is done and all records can be read. It is
        also 0 after a dry run, and with the option `plan_only`. Otherwise, it is 1.

    Raises:
        UserError: the command line is wrong, the data cannot be prepared, all trials of a point
            diverged, or a round cannot start.
        SystemExit: Ctrl-C (code 130) or SIGTERM (code 143). Running jobs have saved checkpoints.
    """
    console = Terminal()
    with StopSignals() as signals, closing(size_server()) as process:
        process.code = registry.ROOT  # until training replaces it by a copy
        code = Code.read(registry.ROOT)
        plan = Planner(composer, process, max_runs=options.max_runs).plan(arguments)
        plan = replace(plan, accept_mixed_code=options.accept_mixed_code)
        _check_options(options, plan)
        store = RunStore(plan.outputs)
        stage = _first_stage(plan, process, store)
        backend = _backend(stage.whole, process, launcher, launcher_options)
        changes = Changes(plan.outputs, code)
        overview = Overview(console, store, backend, options, changes)
        chosen = stage.judged
        estimate = overview.show(
            stage.whole, stage.budgets(), final=chosen is not None, verbose=verbose
        )
        if options.dry_run:
            if plan.claims:
                overview.print_prices(chosen or plan, estimate)
            return 0
        from sweeper.stages.publish import print_everything
        from sweeper.stages.train import Executor

        executor = Executor(console, store, process, backend, options, signals, changes)
        if options.plan_only:
            from sweeper.stages.elsewhere import plan_elsewhere

            plan_elsewhere(executor, chosen or stage.trials)
            return 0

        judged = stage.choose(executor)
        if judged and not chosen:
            overview.print_replaced(judged)
            estimate = overview.print_cost(judged, executor.left(judged))
        done = judged is not None and _train(executor, judged, estimate)
    ended = stage.whole if judged else stage.trials
    readable = print_everything(console, ended.outputs, [*ended.experiments])
    return 0 if done and readable else 1


def _check_options(options: SweepOptions, plan: Plan) -> None:
    """Raise UserError if two options exclude each other, or if a claim can never be decided."""
    if options.plan_only and (options.decide or options.retrain):
        raise UserError(
            "hydra.sweeper.plan_only cannot be combined with hydra.sweeper.decide or "
            "hydra.sweeper.retrain, since both depend on results; leave plan_only or the other "
            "option out."
        )
    if options.decide and not plan.claims:
        raise UserError(
            "hydra.sweeper.decide=true needs an experiment with claims; choose one, such as "
            "experiment=fig1, or leave decide out."
        )
    if options.until and not options.decide:
        raise UserError(
            "hydra.sweeper.until needs hydra.sweeper.decide=true; add it, or leave until out."
        )
    if plan.claims or options.until:
        from sweeper.stages.decide import check_claims

        check_claims(plan, options.until)


def _first_stage(plan: Plan, process: SizeServer, store: RunStore) -> Tuning | Untuned:
    """Return the stage that tunes hyperparameters, or `Untuned` if no experiment is tuned."""
    if not plan.tuned:
        return Untuned(plan)
    from sweeper.stages.tune import Tuning

    return Tuning.of(plan, process, store)


def _backend(plan: Plan, process: SizeServer, launcher: str, options: Any) -> Backend:
    """Make the backend that `launcher` names, for the runs of a plan.

    `options` is the section `hydra.launcher`.
    """
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
    """Train the judged runs, in rounds if `decide` is set. Return whether all are done.

    `estimate` has the expected seconds of training, by run id. It lacks runs of unknown speed.
    """
    from sweeper.stages.decide import decide

    left = executor.left(plan)
    if executor.options.decide:
        return decide(executor, plan, {run: estimate.get(run, 0.0) for run in left})
    return executor.train(plan, left)
