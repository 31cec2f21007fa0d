"""`python -m tasks.export RUN DIR` exports a finished run for Hugging Face `transformers`.

RUN is the folder of the run, outputs/runs/<id>, the id of the run, or the name that
`python -m sweeper status --all` prints for it, for example "fig1/fixed heads=8 seed=0". The option
--outputs is the outputs folder in which to look up an id or a name. DIR is the folder to write.

A decoder becomes Mistral, Qwen3 (with `qk_norm`) or DeepseekV3 (with latent attention). An encoder
becomes BERT. Other models cannot be exported.
"""

import sys
from pathlib import Path

from sweeper.store.errors import UserError
from sweeper.store.plans import open_run
from tasks.process import command_line


def main(arguments: list[str]) -> int:
    """Export a run. Print the paths of the new files, or an error. Return the exit code."""
    parser = command_line("tasks.export", __doc__)
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument(
        "--outputs", type=Path, default=Path("outputs"), metavar="OUTPUTS"
    )
    given = parser.parse_args(arguments)
    try:
        run = open_run(given.run, given.outputs)
        # Import this only now, because importing torch takes seconds.
        from tasks.export.folder import export

        print(*export(run, given.folder), sep="\n")
    except (UserError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
