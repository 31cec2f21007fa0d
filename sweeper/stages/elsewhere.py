"""Prepare an outputs folder, so that another machine can train its runs."""

from __future__ import annotations

import shlex

from sweeper.plan.plan import Plan
from sweeper.stages.publish import relative_path
from sweeper.stages.terminal import print_lines
from sweeper.stages.train import Executor, freeze
from sweeper.store.numbers import plural

COMMANDS = """\
    rsync -a {here}/ HOST:{there}/
    ssh HOST {train}
    rsync -a HOST:{there}/ {here}/"""


def plan_elsewhere(executor: Executor, plan: Plan) -> None:
    """Write all that another machine needs to train a plan: records, a copy of the code, and data.

    Print the commands that copy the outputs folder to that machine, train the runs there, and copy
    the results back.

    Raises:
        UserError: the data cannot be prepared.
    """
    console = executor.console
    records = {run: plan.runs[run] for run in executor.left(plan)}
    estimate = executor.throughput(plan).estimate(records.values())
    freeze(plan, executor.store, estimate)
    if not records:
        print_lines(
            console,
            "All runs are done. To publish their results, repeat this command without "
            "hydra.sweeper.plan_only.",
        )
        return

    # Do not warm the backend: this machine may lack the GPU that the runs need.
    executor.prepare(records, lambda: None)
    there = shlex.quote(plan.outputs.name)
    code = executor.process.code.name
    train = f"cd {there}/code/{code} && python -m sweeper train --outputs ../.."
    here = shlex.quote(relative_path(plan.outputs))
    print_lines(
        console,
        f"\nTo train {plural(len(records), 'run')} on another machine:",
        COMMANDS.format(here=here, there=there, train=shlex.quote(train)),
        "Then repeat this command without hydra.sweeper.plan_only to publish the results.",
    )
