"""Prepare the data of a run: `python -m tasks.prepare RUN`.

Runs with equal data share the folder of prepared data.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from sweeper.store.cores import cores
from sweeper.store.errors import OTHER_CODE, UserError
from sweeper.store.runs import Run
from tasks.process import run_argument


def main(argument: str) -> int:
    """Prepare the data of the run in the directory `argument`; return the exit code."""
    from tasks.parse import data_of, parse

    # Train tokenizers on all cores. `tokenizers` reads these variables when it is first used.
    os.environ.update(TOKENIZERS_PARALLELISM="true", RAYON_NUM_THREADS=str(cores()))
    try:
        run = Run.open(Path(argument))
        data = data_of(parse(run.record().config), run.outputs)
        data.prepare_data()
        # Check every file here, and save its fingerprint, so that training jobs need not read it.
        data.check(again=True)
        if changed := data.changed_code():
            folder = run.outputs / "data" / data.folder_name()
            print(
                f"{OTHER_CODE}{folder} ({', '.join(changed)} changed)", file=sys.stderr
            )
    except (UserError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    finally:
        # Turn off the threads of `tokenizers`, because this process may fork later.
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
    return 0


if __name__ == "__main__":
    sys.exit(main(run_argument("tasks.prepare", __doc__)))
