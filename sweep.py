"""Train a grid of Transformers and compare their head sizes.

    python sweep.py model.heads=8                                      train one run
    python sweep.py -m model.heads=4,8,16,32 model.head_size=32        train a grid
    python sweep.py -m experiment=fig1 scale=demo seed=0,1,2           train and draw Figure 1
    python sweep.py -m experiment=fig1 hydra.sweeper.dry_run=true      print the plan only
    python sweep.py --config-dir DIR -m experiment=mine                use your own yaml files

If you repeat a command, it continues where it stopped. The yaml files in conf/ list all keys, with
comments.

This file is stop 1 of the road through the code in CONTRIBUTING.md. It lets Hydra parse the command
line. Read sweeper/stages/sweep.py next, which passes the overrides to sweeper/plan/planner.py.
"""

import gc
import os
import re
import sys
from itertools import pairwise
from pathlib import Path

from sweeper.store.errors import exit_without_package, sanitize

try:
    from sweeper.cli.process import settle_process
    from sweeper.plan.hydra_errors import explained, is_interrupt, is_user_error
    from sweeper.plan.overrides import folder_override
    from sweeper.plan.refused import FOLDERS, SWEEPS, refuse_arguments
    from sweeper.plan.yaml_limits import check_yaml
    from sweeper.size_server import SINGLE_THREADED, size_server
    from sweeper.store.registry import ROOT
except ModuleNotFoundError as missing:
    exit_without_package(missing)

# Hydra rejects a folder with an umlaut, a parenthesis or a leading ~, unless it is in quotes. So
# `run` adds the quotes, and the planner expands ~. A value with a comma, `$` or a backslash gets no
# quotes, since it may be a list, an interpolation or an escape.
PLAIN = r"\w./:@%+?|* -"  # characters that Hydra accepts without quotes
FOLDER = re.compile(
    rf"(data\.root|paths\.outputs)=(?!['\"])([^$,\\]*[^$,\\{PLAIN}][^$,\\]*)", re.ASCII
)


def run(arguments: list[str]) -> None:
    """Run a sweep, or only print what a flag such as --help asks for.

    Args:
        arguments: the command line, without the name of the program. It may lack `-m`, because a
            single run is a sweep, too.
    """
    settle_process()
    os.environ |= SINGLE_THREADED | os.environ  # keep variables that are set
    refuse_arguments(arguments)
    arguments = [
        folder_override(*match.groups()) if (match := FOLDER.fullmatch(one)) else one
        for one in arguments
    ]

    folders = [
        folder
        for flag, folder in pairwise(arguments)
        if flag in ("-cd", "--config-dir")
    ]
    folders += [
        one.partition("=")[2] for one in arguments if one.startswith("--config-dir=")
    ]
    for folder in (ROOT / "conf", *map(Path, folders)):
        check_yaml(folder)

    # Hydra first composes a config without the experiment, and ignores the values of a swept
    # `model=decoder,encoder`. It rejects an override of a key that this config lacks, unless the
    # override begins with "++". So insert "++" for keys of experiments and models. The planner
    # checks these keys later.
    several = any(re.match("model=.*,", one) for one in arguments)
    free = ("experiment.", "model." if several else "model.options.")
    arguments = [f"++{one}" if one.startswith(free) else one for one in arguments]
    flags = {
        argument.partition("=")[0] for argument in arguments if argument.startswith("-")
    }

    # Change only the arguments of a sweep. With other flags, such as --help, Hydra does not sweep.
    if flags <= SWEEPS:
        # Hydra rejects overrides on both sides of a flag, so move the flags to the front.
        pairs = [*pairwise(["", *arguments])]  # (argument before it, argument)
        front = [
            pair for pair in pairs if pair[1].startswith("-") or pair[0] in FOLDERS
        ]
        rest = [pair for pair in pairs if pair not in front]
        arguments = [argument for _, argument in (*front, *rest)]
        if sys.stdout.isatty():
            print("planning ...", flush=True)
        arguments = (
            arguments if flags & {"-m", "--multirun"} else ["--multirun", *arguments]
        )
    sys.argv[1:] = arguments

    # With this variable, Hydra raises exceptions instead of printing them.
    os.environ["HYDRA_FULL_ERROR"] = "1"

    import hydra

    from sweeper.hydra_section import declare

    declare()

    @hydra.main(config_path="conf", config_name="config", version_base="1.3")
    def main(_: object) -> None:
        """Raise AssertionError, since Hydra calls the sweeper in hydra_plugins/ instead."""
        raise AssertionError(
            "Hydra called the task function instead of the sweeper. This is a bug in Headroom; "
            "report it with your command."
        )

    main()


if __name__ == "__main__":
    try:
        run(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)  # Ctrl-C during planning. During training, the sweep handles it.
    except Exception as problem:
        # If the user can correct the error, print it as one sentence without a traceback.
        size_server().close()
        if is_interrupt(problem):
            sys.exit(130)
        if not is_user_error(problem):
            raise
        print(f"error: {sanitize(explained(problem), 2000)}", file=sys.stderr)
        sys.exit(2)
    finally:
        # Without this call, Python searches all imported objects for garbage at exit, which takes
        # 0.2 s.
        gc.freeze()
