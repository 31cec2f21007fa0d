"""Train a grid of Transformers and draw what head size is worth.

    python sweep.py model.heads=8                                      one run
    python sweep.py -m model.heads=4,8,16,32 model.head_size=32        a grid
    python sweep.py -m experiment=fig1 scale=demo seed=0,1,2           everything Figure 1 needs
    python sweep.py -m experiment=fig1 hydra.sweeper.dry_run=true      the plan, nothing started
    python sweep.py --config-dir DIR -m experiment=mine                yaml files of your own

Typed again, the same command continues where it stopped. conf/ holds every value, with a comment.

Stop 1 of the road (CONTRIBUTING.md). In: the command line. Out: overrides, read by Hydra. Next:
sweeper/sweep.py, which has them planned by sweeper/plan/planner.py.
"""

import gc
import os
import re
import sys
from itertools import pairwise
from pathlib import Path

from sweeper.cli.process import settle_process
from sweeper.plan.refused import FOLDERS, SWEEPS, refuse_arguments
from sweeper.plan.yaml_limits import check_yaml
from sweeper.size_server import SINGLE_THREADED, size_server
from sweeper.store.errors import sanitize
from sweeper.store.registry import ROOT

# Hydra reads ~ only in quotes, and a shell leaves it as it is after a key.
HOME = re.compile(r"^((?:data\.root|paths\.outputs)=)(~/[^'\"]*)$")


def run(arguments: list[str]) -> None:
    """Sweep, or tell what was asked about; a single run is a sweep of one."""
    settle_process()
    os.environ |= SINGLE_THREADED | os.environ  # what was asked for otherwise stays
    refuse_arguments(arguments)
    arguments = [HOME.sub(r"\1'\2'", one) for one in arguments]
    named = [
        one for flag, one in pairwise(arguments) if flag in ("-cd", "--config-dir")
    ]
    named += [
        one.partition("=")[2] for one in arguments if one.startswith("--config-dir=")
    ]
    for folder in (ROOT / "conf", *map(Path, named)):
        check_yaml(folder)
    # Hydra looks these up without an experiment, and in one of several models. The planner checks
    # them.
    several = any(re.match("model=.*,", one) for one in arguments)
    free = ("experiment.", "model." if several else "model.options.")
    arguments = [f"++{one}" if one.startswith(free) else one for one in arguments]
    flags = {
        argument.partition("=")[0] for argument in arguments if argument.startswith("-")
    }
    if flags <= SWEEPS:  # Hydra's other flags (--cfg, --help, ...) are its own affair
        # Hydra reads no overrides on both sides of a flag.
        pairs = [*pairwise(["", *arguments])]
        first = [one for one in pairs if one[1].startswith("-") or one[0] in FOLDERS]
        arguments = [
            one for _, one in [*first, *(one for one in pairs if one not in first)]
        ]
        if sys.stdout.isatty():
            print("planning ...", flush=True)
        arguments = (
            arguments if flags & {"-m", "--multirun"} else ["--multirun", *arguments]
        )
    sys.argv[1:] = arguments
    # Hydra hands its exceptions on; else it prints them.
    os.environ["HYDRA_FULL_ERROR"] = "1"

    import hydra

    from sweeper.hydra_section import declare

    declare()

    @hydra.main(config_path="conf", config_name="config", version_base="1.3")
    def main(_: object) -> None:
        """Hydra parses the command line; the sweeper it finds in hydra_plugins/ does the rest."""
        raise AssertionError(
            "hydra.mode is MULTIRUN: the sweeper never calls the task function"
        )

    main()


if __name__ == "__main__":
    try:
        run(sys.argv[1:])
    except KeyboardInterrupt:  # while it plans; later the sweep ends itself
        sys.exit(130)
    except (
        Exception
    ) as problem:  # the edge of the process: what a person can mend is a sentence
        from sweeper.plan.hydra_errors import explained, is_user_error

        size_server().close()
        if not is_user_error(problem):
            raise
        print(f"error: {sanitize(explained(problem), 2000)}", file=sys.stderr)
        sys.exit(2)
    finally:
        gc.freeze()  # else all that was imported is searched for garbage on the way out: 0.2 s
