"""One sweep from a command line to its figures: plan, tune, train, decide, publish."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from sweeper.cli.terminal import Terminal
from sweeper.other_code import in_words, of_other_code
from sweeper.plan.compose import Composer
from sweeper.plan.plan import Plan, PlannedRun
from sweeper.plan.planner import Planner
from sweeper.plan.show import print_plan
from sweeper.plan.throughput import Throughput, device_of, measured
from sweeper.run.backend import Backend, BackendContext, Resources
from sweeper.run.makespan import makespan, remaining, share_done
from sweeper.run.options import SweepOptions
from sweeper.run.stop import STOPS, StopSignals
from sweeper.size_server import size_server
from sweeper.store import registry
from sweeper.store.changes import Changes
from sweeper.store.code import Code
from sweeper.store.errors import invalid_value, sanitize
from sweeper.store.files import make_directory, publish_json, read_object
from sweeper.store.numbers import clock, plural
from sweeper.store.plans import command_of, replaced
from sweeper.store.runs import RunStore, State, Status

SLOWDOWN = (1, 4)
"""Training takes these times as long as its bare matrix products: 1.1 to 3.3 were measured."""

# Imported where they are used: a dry run needs neither the scheduler nor statistics.
if TYPE_CHECKING:
    from sweeper.train import Executor
    from sweeper.tune import Tuning


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
        if plan.claims or options.until:
            from sweeper.decide import check_claims

            check_claims(plan, options.until)
        store, tuning = RunStore(plan.outputs), None
        if plan.tuned:
            from sweeper.tune import Tuning

            tuning = Tuning.of(plan, process, store)
        whole = tuning.whole if tuning else plan
        configs = [run.config for run in whole.runs.values()]
        make = registry.function(
            registry.BACKENDS, launcher, "hydra/launcher", "backend"
        )
        backend = make(
            BackendContext(
                options=launcher_options,
                resources=frozenset(Resources.of(config) for config in configs),
                logger=configs[0]["logger"]["name"],
                outputs=plan.outputs,
                process=process,
            )
        )
        changes = Changes.of(plan.outputs, code)
        estimate = _show(
            console, whole, tuning, store, backend, options, changes, verbose=verbose
        )
        if options.dry_run:
            if plan.claims:
                _print_prices(
                    console, store, (tuning and tuning.judged) or plan, estimate
                )
            return 0
        if options.plan_only:
            from sweeper.elsewhere import plan_elsewhere

            ready = (tuning.judged or tuning.trials) if tuning else plan
            plan_elsewhere(console, ready, store, process, code, estimate)
            return 0
        from sweeper.publish import print_everything
        from sweeper.train import Executor
        from sweeper.tune import spent, tune

        executor = Executor(console, store, process, backend, options, signals, code)
        unknown = tuning is not None and not tuning.judged
        judged = tune(executor, tuning) if tuning else plan
        if judged and unknown:
            _print_replaced(console, judged)
            estimate = _print_cost(
                console, judged, executor.left(judged), store, backend
            )
        done = judged is not None and _train(executor, judged, estimate)
    ended = (tuning.whole if judged else tuning.trials) if tuning else plan
    readable = print_everything(console, ended.outputs, [*ended.experiments])
    for line in spent(tuning, store) if tuning else ():
        console.print(Text(line), soft_wrap=True)
    return 0 if done and readable else 1


def _check_options(options: SweepOptions, plan: Plan) -> None:
    """Raise UserError for options that exclude each other, or that need claims."""
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
        remedy = "choose one, as in experiment=fig1 (a grid has no claims), or leave this out"
        raise invalid_value(
            "hydra.sweeper.decide", "true", "an experiment with claims", remedy
        )


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


def _show(
    console: Console,
    plan: Plan,
    tuning: Tuning | None,
    store: RunStore,
    backend: Backend,
    options: SweepOptions,
    changes: Changes,
    *,
    verbose: bool,
) -> dict[str, float]:
    """Print the plan and its cost; return the expected seconds of training of each run."""
    statuses = {run: store.run(run).status() for run in plan.runs}
    other_code = of_other_code(plan, store, changes, statuses)
    for line in in_words(other_code, retrain=bool(options.retrain)):
        console.print(Text(line, style="bold"), soft_wrap=True)
    if options.retrain:
        anew = Status(State.NEW, "trained again", 0)
        statuses |= dict.fromkeys(other_code.again, anew)
    listed = options.dry_run or len(plan.points) <= 60
    print_plan(console, plan, statuses, points=listed, verbose=verbose)
    left = [run for run in plan.runs if statuses[run].state is not State.DONE]
    estimate = _print_cost(console, plan, left, store, backend, dry_run=options.dry_run)
    if tuning:
        from sweeper.tune import budgets

        for line in budgets(tuning):
            console.print(Text(line), soft_wrap=True)
    if not tuning or tuning.judged:  # else runs have other ids once values are chosen
        _print_replaced(console, plan)
    return estimate


def _print_replaced(console: Console, plan: Plan) -> None:
    """Print which results of other commands lose their name to this sweep."""
    for name, before in replaced(plan.outputs, plan.as_data()).items():
        words = f"{name}: these results replace those of another command, whose runs stay on disk."
        remedy = f"To count them again, type {command_of(before)}"
        console.print(Text(sanitize(f"{words} {remedy}", 1000)), soft_wrap=True)


def _print_prices(
    console: Console, store: RunStore, plan: Plan, estimate: Mapping[str, float]
) -> None:
    """Print the price of each claim by the runs that are done."""
    from sweeper.results.collect import Records
    from sweeper.results.summary import print_prices

    records = Records(store, {run.id: run.config for run in plan.runs.values()})
    print_prices(console, records.tables({**plan.as_data(), "estimate": estimate}))


def _print_cost(
    console: Console,
    plan: Plan,
    left: Sequence[str],
    store: RunStore,
    backend: Backend,
    *,
    dry_run: bool = False,
) -> dict[str, float]:
    """Print the cost of the runs left; return the expected seconds of training of each.

    Before anything is measured these are unknown: the answer is empty, and a dry run prints a
    range by the speed of this machine.
    """
    throughput = measured(plan, store, backend)
    runs, slots = [plan.runs[run] for run in left], backend.slots
    if runs:
        device = device_of(plan, backend).upper()
        times = f"the time on a {device} follows once a run is measured"
        if throughput.measured:
            seconds = expected_seconds(runs, store, throughput, slots)
            times = f"about {clock(seconds)} on a {device} by finished runs"
        elif dry_run and device == "CPU":
            least, most = _range(runs, store, slots)
            times = (
                f"{clock(least)} to {clock(most)} on a CPU as fast as this machine's"
            )
        tokens, flops = (
            sum(run.size["tokens"] for run in runs),
            sum(run.flops for run in runs),
        )
        console.print(
            f"To train: {plural(len(runs), 'run')}, {tokens:.3g} tokens, {flops:.3g} FLOPs, "
            f"{slots} at a time; {times}."
        )
    return throughput.estimate(runs)


def _range(
    runs: Sequence[PlannedRun], store: RunStore, slots: int
) -> tuple[float, float]:
    """Return the least and the most wall seconds of runs, by a measurement of this machine."""
    threads = max(run.config["trainer"]["threads"] for run in runs)
    per_flop = 1 / (_flops_per_second(store.outputs) * threads)
    least, most = (
        expected_seconds(runs, store, Throughput(times * per_flop), slots)
        for times in SLOWDOWN
    )
    return least, most


def _flops_per_second(outputs: Path) -> float:
    """Return the speed of matrix products on a core of this machine, measured once."""
    path, machine = outputs / "cache" / "speed.json", socket.gethostname()
    known = read_object(path) or {}
    if machine not in known:
        [answer] = size_server().ask([{"op": "speed"}])
        known[machine] = answer["flops_per_second"]
        make_directory(path.parent)
        publish_json(path, known)
    return float(known[machine])


def expected_seconds(
    runs: Sequence[PlannedRun], store: RunStore, throughput: Throughput, slots: int
) -> float:
    """Return the expected wall seconds of runs that are not done, with `slots` at a time.

    Of an interrupted run, or one that another sweep trains, only its remaining steps count.
    """
    waiting = {}
    for run in sorted(runs, key=lambda run: -run.flops):
        share = share_done(store.run(run.id), run.steps)
        waiting[run.id] = remaining(throughput.expected(run), share), run.parent
    return makespan({}, waiting, slots)
