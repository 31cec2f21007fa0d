"""`python -m tasks.prepare RUN` prepares a run's data, once for all runs that need the same."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from sweeper.store.cores import cores
from sweeper.store.errors import UserError
from sweeper.store.runs import Run
from tasks.process import typed_run


def main(argument: str) -> int:
    """Prepare the data of the run in a directory; return 1 if that fails."""
    from tasks.parse import data_of, parse

    # Tokenizers are learned on all cores; nothing in this process has used the library before.
    os.environ.update(TOKENIZERS_PARALLELISM="true", RAYON_NUM_THREADS=str(cores()))
    try:
        run = Run.open(Path(argument))
        data = data_of(parse(run.record()["config"]), run.outputs)
        data.prepare_data()
        data.check(again=True)  # for all runs of this sweep
    except (UserError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"  # forks of this process have no threads
    return 0


if __name__ == "__main__":
    sys.exit(main(typed_run("tasks.prepare", __doc__)))
