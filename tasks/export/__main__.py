"""`python -m tasks.export RUN DIR` exports a finished run to a folder that transformers can load.

RUN is the folder of the run, outputs/runs/<id>. A decoder becomes Mistral, Qwen3 (with `qk_norm`)
or DeepseekV3 (with latent attention). An encoder becomes BERT. Other models cannot be exported.
"""

import sys
from pathlib import Path

from sweeper.store.errors import UserError
from sweeper.store.runs import Run
from tasks.process import command_line


def main(arguments: list[str]) -> int:
    """Export a run and print the files, or print an error; return the exit code."""
    parser = command_line("tasks.export", __doc__)
    parser.add_argument("run", type=Path, metavar="RUN")
    parser.add_argument("folder", type=Path, metavar="DIR")
    given = parser.parse_args(arguments)
    try:
        run = Run.open(given.run)
        from tasks.export.folder import export  # torch takes seconds

        print(*export(run, given.folder), sep="\n")
    except (UserError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
