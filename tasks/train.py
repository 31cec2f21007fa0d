"""The job entry: `python -m tasks.train outputs/runs/<id>` trains what the record describes.

In: the directory of a frozen run. Out: its result.json. It claims an attempt, continues from the
newest checkpoint that is whole, trains (training/job.py) and publishes.
Exit code 0: the result is there; 75: interrupted, can be continued; 1: failed, exit.json says why.
Its output goes to the attempt's log.txt; `python -m sweeper status --watch` shows how far it is.
"""

import sys
from importlib import import_module
from pathlib import Path

from sweeper.store.errors import UserError
from sweeper.store.runs import Run
from tasks.process import freeze_gc, typed_run


def main(argument: str) -> int:
    """Do the job of a run directory and return the exit code."""
    from tasks.training import distributed  # torch and Lightning take seconds
    from tasks.training.job import INTERRUPTED, Elsewhere, Job

    try:
        run = Run.open(Path(argument))
        if run.result() is not None:
            return 0
        trainer = run.record()["config"]["trainer"]
        if trainer["devices"] * trainer["num_nodes"] > 1:
            if not distributed.is_rank():
                return distributed.supervise(run, trainer["devices"], trainer["num_nodes"])
            distributed.join(trainer)
        code = Job(run).work()
        if code in (0, INTERRUPTED):  # a rank that failed is not waited for
            distributed.leave()
        return code
    except Elsewhere as elsewhere:
        print(elsewhere, file=sys.stderr)
        return INTERRUPTED
    except (UserError, OSError) as error:  # nothing was claimed, so nothing can be recorded
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    run = typed_run("tasks.train", __doc__)
    with freeze_gc():  # this process does one job
        import_module("tasks.training.job")
    sys.exit(main(run))
