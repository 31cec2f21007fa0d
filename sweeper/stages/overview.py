"""Print the overview of a sweep before it trains: plan, cost, other code, replaced results."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console

from sweeper.plan.plan import Plan
from sweeper.plan.show import print_plan
from sweeper.plan.throughput import Throughput, device_of, measured
from sweeper.run.backend import Backend
from sweeper.run.makespan import makespan, remaining, share_done
from sweeper.run.options import SweepOptions
from sweeper.size_server import size_server
from sweeper.stages.other_code import in_words, of_other_code
from sweeper.stages.terminal import print_lines
from sweeper.store.changes import Changes
from sweeper.store.errors import sanitize
from sweeper.store.files import make_directory, publish_json, read_object
from sweeper.store.numbers import clock, plural
from sweeper.store.plans import command_of, replaced
from sweeper.store.records import Record
from sweeper.store.runs import RunStore, State, Status

SLOWDOWN = (1, 4)
"""The assumed range of a ratio: the time of training / the time of its matrix products alone.
Measured ratios were 1.1 to 3.3."""


@dataclass
class Overview:
    """A printer of the overview of a sweep. Its main method is `show`."""

    console: Console
    store: RunStore
    backend: Backend
    options: SweepOptions
    changes: Changes

    def show(
        self, plan: Plan, budgets: Iterable[str], *, final: bool, verbose: bool
    ) -> dict[str, float]:
        """Print a plan and its cost. Return the expected seconds of training, by run id.

        Leave out runs of unknown speed from the result.

        Args:
            plan: all runs of the sweep, including tuning trials.
            budgets: sentences about the cost of tuning, to print.
            final: whether tuning has chosen all values, so that the ids of the runs are final. If
                so, also print which earlier results the sweep replaces.
            verbose: whether to list every point of a large plan.
        """
        statuses = {run: self.store.run(run).status() for run in plan.runs}
        other_code = of_other_code(plan, self.store, self.changes, statuses)
        warnings = in_words(
            other_code,
            retrain=bool(self.options.retrain),
            accepted=self.options.accept_mixed_code,
        )
        print_lines(self.console, *warnings, style="bold")
        if self.options.retrain:
            anew = Status(State.NEW, "trained again", 0)
            statuses |= dict.fromkeys(other_code.again, anew)

        print_plan(self.console, plan, statuses, verbose=verbose)
        left = [run for run in plan.runs if statuses[run].state is not State.DONE]
        estimate = self.print_cost(plan, left)
        print_lines(self.console, *budgets)
        if final:
            self.print_replaced(plan)
        return estimate

    def print_replaced(self, plan: Plan) -> None:
        """Print which earlier results with the same name this sweep replaces."""
        now = plan.as_data()
        for name, before in replaced(plan.outputs, now).items():
            command = command_of(before)
            hint = f"To restore those results, run {command}"
            if command == command_of(now):
                hint = (
                    "The text, a yaml file or the chosen learning rates have changed."
                )
            words = (
                f"{name}: this sweep replaces earlier results, whose runs stay on disk."
            )
            print_lines(self.console, sanitize(f"{words} {hint}", 1000))

    def print_prices(self, plan: Plan, estimate: Mapping[str, float]) -> None:
        """Print the expected cost of deciding each claim, estimated from the finished runs.

        `estimate` has the expected seconds of training, by run id.
        """
        from sweeper.results.collect import Records
        from sweeper.results.summary import print_prices

        configs = {run.id: run.config for run in plan.runs.values()}
        planned = {**plan.as_data(), "estimate": estimate}
        print_prices(self.console, Records(self.store, configs).tables(planned))

    def print_cost(self, plan: Plan, left: Sequence[str]) -> dict[str, float]:
        """Print the cost of training the runs `left`.

        If a dry run for CPUs has no estimate for a run, print a range of times instead, computed
        from the speed of this machine.

        Return the expected seconds of training, by run id, estimated from similar finished runs.
        Leave out runs without similar finished runs.
        """
        throughput = measured(plan, self.store, self.backend.device)
        runs, slots = [plan.runs[run] for run in left], self.backend.slots
        if runs:
            tokens = sum(run.size["tokens"] for run in runs)
            flops = sum(run.flops for run in runs)
            self.console.print(
                f"To train: {plural(len(runs), 'run')}, {tokens:.3g} tokens, {flops:.3g} FLOPs, "
                f"{slots} at a time{self._times(plan, runs, throughput)}."
            )
        return throughput.estimate(runs)

    def _times(self, plan: Plan, runs: Sequence[Record], throughput: Throughput) -> str:
        """Return a clause about the expected time, such as "; about 3 min on a CPU, ..."."""
        device, slots = device_of(plan, self.backend.device).upper(), self.backend.slots
        if all(map(throughput.knows, runs)):
            seconds = expected_seconds(runs, self.store, throughput, slots)
            return (
                f"; about {clock(seconds)} on a {device}, estimated from finished runs"
            )
        if not self.options.dry_run or device == "GPU":
            return f"; the time on a {device} is unknown until similar runs have been measured"
        threads = max(run.config["trainer"]["threads"] for run in runs)
        per_flop = 1 / (self._flops_per_second() * threads)
        least, most = (
            expected_seconds(runs, self.store, Throughput(times * per_flop), slots)
            for times in SLOWDOWN
        )
        return f"; {clock(least)} to {clock(most)} on a CPU as fast as this machine's"

    def _flops_per_second(self) -> float:
        """Return the speed of matrix products on one core of this machine, in FLOPs per second.

        The first call on a machine measures the speed and stores it in cache/speed.json.
        """
        path = self.store.outputs / "cache" / "speed.json"
        machine = socket.gethostname()
        known = read_object(path) or {}
        if machine not in known:
            [answer] = size_server().ask([{"op": "speed"}])
            known[machine] = answer["flops_per_second"]
            make_directory(path.parent)
            publish_json(path, known)
        return float(known[machine])


def expected_seconds(
    runs: Sequence[Record], store: RunStore, throughput: Throughput, slots: int
) -> float:
    """Return the expected wall time in seconds to train runs, `slots` of them at a time.

    For runs that have begun, count only the remaining steps.
    """
    waiting = {}
    for run in sorted(runs, key=lambda run: -run.flops):
        share = share_done(store.run(run.id), run.steps)
        waiting[run.id] = remaining(throughput.expected(run), share), run.parent
    return makespan({}, waiting, slots)
