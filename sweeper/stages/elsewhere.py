"""Prepare an outputs folder, so that another machine can train its runs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from sweeper.plan.plan import Plan
from sweeper.size_server import SizeServer
from sweeper.stages.publish import relative_path
from sweeper.stages.terminal import Terminal
from sweeper.stages.train import freeze, prepare
from sweeper.store.code import Code, pin
from sweeper.store.numbers import plural
from sweeper.store.runs import RunStore, State

COMMANDS = """\
    rsync -a {here}/ HOST:{there}/
    ssh HOST {train}
    rsync -a HOST:{there}/ {here}/"""


def plan_elsewhere(
    console: Terminal,
    plan: Plan,
    store: RunStore,
    process: SizeServer,
    code: Code,
    estimate: Mapping[str, float],
) -> None:
    """Write all that another machine needs to train a plan: records, a copy of the code, and data.

    Print the commands that copy the outputs folder to that machine, train the runs there, and copy
    the results back. `estimate` holds the expected seconds of training, by run id.

    Raises:
        UserError: the data cannot be prepared.
    """
    left = [run for run in plan.runs if store.run(run).status().state is not State.DONE]
    freeze(plan, store, {run: estimate[run] for run in left if run in estimate})
    if not left:
        console.print_line(
            "All runs are done. To publish their results, repeat this command without "
            "hydra.sweeper.plan_only."
        )
        return

    configs = {run: plan.runs[run].config for run in left}
    process.code = pin(plan.outputs, code, configs.values())
    prepare(console, store, process, configs, set())

    there = shlex.quote(plan.outputs.name)
    train = f"cd {there}/code/{process.code.name} && python -m sweeper train --outputs ../.."
    console.print_line(f"\nTo train {plural(len(left), 'run')} on another machine:")
    console.print_line(
        COMMANDS.format(
            here=shlex.quote(relative_path(plan.outputs)),
            there=there,
            train=shlex.quote(train),
        )
    )
    console.print_line(
        "Then repeat this command without hydra.sweeper.plan_only to publish the results."
    )
