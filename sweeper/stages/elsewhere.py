"""Prepare an outputs folder for training on another machine, for hydra.sweeper.plan_only=true."""

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
    """Write the records, a copy of the code and the data, so that another machine can train a plan.

    Then print the commands that copy the outputs folder to the other machine, train the runs there,
    and copy the results back.

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

    # Do not warm up the backend during preparation, since this machine may lack the GPU that the
    # runs need.
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
