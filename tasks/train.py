"""Train the run that a record describes: `python -m tasks.train outputs/runs/<id>`.

The job claims a new attempt at the run, continues from the newest intact checkpoint, trains
(training/job.py) and writes result.json. Its output goes to the attempt's log.txt. `python -m
sweeper status --watch` shows the progress.

The exit code is 0 if the run has its result, 75 if the job was interrupted and can be continued,
and 1 if it failed. After a failure, exit.json names the cause.
"""

import sys
from importlib import import_module
from pathlib import Path

from sweeper.store.errors import UserError
from sweeper.store.runs import Run
from tasks.process import freeze_gc, run_argument


def main(argument: str) -> int:
    """Train the run in the directory `argument`; return the exit code.

    If the run uses several devices, start a process (rank) for each device of this machine. Each
    rank also calls `main`.
    """
    # Import here, because importing torch and Lightning takes seconds.
    from tasks import ranks
    from tasks.training import distributed
    from tasks.training.job import INTERRUPTED, Elsewhere, Job

    try:
        run = Run.open(Path(argument))
        if run.result() is not None:
            return 0
        trainer = run.record().config["trainer"]
        if trainer["devices"] * trainer["num_nodes"] > ranks.world():
            return distributed.supervise(run, trainer, main)
        return Job(run).work()
    except Elsewhere as elsewhere:
        print(elsewhere, file=sys.stderr)
        return INTERRUPTED
    except (UserError, OSError) as error:
        # The job has not claimed an attempt yet, so print the error instead of recording it.
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    run = run_argument("tasks.train", __doc__)
    with freeze_gc():
        import_module("tasks.training.job")
    sys.exit(main(run))
