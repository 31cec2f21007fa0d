"""The command `python -m sweeper train`, which trains the unfinished runs of an outputs folder.

It needs only the records of the runs, and imports neither Hydra nor rich.
"""

from collections.abc import Collection, Mapping
from contextlib import closing
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from sweeper.run.backend import BackendContext, Job, Resources
from sweeper.run.backends import local
from sweeper.run.options import SweepOptions
from sweeper.run.schedule import JobState, Phase, Schedule, counts
from sweeper.run.stop import Stopped, StopSignals
from sweeper.size_server import size_server
from sweeper.store.code import Code, pin
from sweeper.store.errors import drop_output, invalid_value
from sweeper.store.numbers import plural
from sweeper.store.records import Record
from sweeper.store.runs import RunStore, State


def train(outputs: Path, *, slots: int | None = None, jobs_per_device: int = 1) -> int:
    """Train the unfinished runs of an outputs folder on this machine.

    Args:
        outputs: the absolute path of the folder.
        slots: the number of runs to train at the same time. None means as many as the GPUs allow,
            or the cores if there is no GPU.
        jobs_per_device: the number of runs that share one GPU.

    Returns:
        The exit code: 0 if all runs are done, 1 if not, 130 after Ctrl-C and 143 after SIGTERM.
        After either signal, the running jobs save before they end.

    Raises:
        UserError: the folder has no runs, or this machine cannot train them. Nothing was trained.
    """
    options = local.Options(jobs_per_device=jobs_per_device, slots=slots)
    store = RunStore(outputs)
    runs = [store.run(id) for id in store.ids()]
    if not runs:
        remedy = "plan runs with hydra.sweeper.plan_only=true, or name another folder"
        raise invalid_value("outputs", outputs, "a folder with planned runs", remedy)
    store.check_writable()

    records = {
        run.id: run.record() for run in runs if run.status().state is not State.DONE
    }
    if not records:
        _print(f"nothing to train: {plural(len(runs), 'run')} done")
        return 0

    with StopSignals() as signals, closing(size_server()) as process:
        configs = [record.config for record in records.values()]
        process.code = pin(outputs, Code.read(), configs)
        context = BackendContext(
            options=options,
            resources=frozenset(map(Resources.of, configs)),
            logger=_logger({config["logger"]["name"] for config in configs}),
            outputs=outputs,
            process=process,
        )
        backend = local.backend(context)
        backend.warm()
        devices = "GPUs" if backend.device == "gpu" else "the CPU"
        _print(
            f"training {plural(len(records), 'run')} on {devices}, {backend.slots} at a time"
        )

        schedule = Schedule(
            store,
            backend,
            [Job(one.id, one.flops, one.parent) for one in records.values()],
            policy=SweepOptions(),
            changed=partial(_print_change, records),
            check_for_stop=signals.check,
        )
        with signals.held():
            try:
                finished = schedule.execute()
            except Stopped as stopped:
                _print(
                    f"{stopped}: running jobs were saved. Repeat the command to continue."
                )
                return stopped.code
    if schedule.breaker.tripped:
        _print(f"the other runs were not started: {schedule.breaker.tripped}")
    return 0 if finished else 1


def _print_change(
    records: Mapping[str, Record], schedule: Schedule, state: JobState | None
) -> None:
    """Print a line for a job that has changed its phase."""
    if state is None:
        return
    label = records[state.job.run].label
    done = counts(schedule.states)[Phase.DONE]
    words = f"[{done}/{len(records)}] {state.phase:8} {label}  {state.reason}"
    _print(words.rstrip())


def _logger(names: Collection[str]) -> str:
    """Return the logger that jobs import, "wandb" or "none".

    If a run needs wandb, but wandb is not installed, print a note and return "none".
    """
    if "wandb" not in names:
        return "none"
    if find_spec("wandb") is None:
        _print(
            "wandb is not installed, so no run will appear in Weights & Biases; to log the runs, "
            "stop this command, run `pip install wandb`, and repeat the command"
        )
        return "none"
    return "wandb"


def _print(words: str) -> None:
    """Print a line. If stdout is a closed pipe, continue without output."""
    try:
        print(words, flush=True)
    except OSError:
        drop_output()
