"""Train a grid of Transformers and draw what head size is worth.

    python sweep.py model.heads=8                                      one run
    python sweep.py -m model.heads=4,8,16,32 model.head_size=32        a grid
    python sweep.py -m experiment=fig1 scale=demo seed=0,1,2           everything Figure 1 needs
    python sweep.py -m experiment=fig1 hydra.sweeper.dry_run=true      the plan, nothing started

Typed again, the same command continues where it stopped. conf/ holds every value, with a comment.
"""

import gc
import sys

import hydra

from sweeper.model_process import model_process
from sweeper.plan.compose import Composer
from sweeper.plan.refused import refuse_flags
from sweeper.store.errors import UserError


@hydra.main(config_path="conf", config_name="config", version_base="1.3")
def main(_: object) -> None:
    """Hydra parses the command line; the sweeper it finds in hydra_plugins/ does the rest."""
    raise AssertionError("hydra.mode is MULTIRUN: the sweeper never calls the task function")


def checked(arguments: list[str]) -> list[str]:
    """The command line for Hydra, its overrides looked at; a single run is a sweep of one."""
    refuse_flags(arguments)
    flags = {argument for argument in arguments if argument.startswith("-")}
    if flags <= {"-m", "--multirun"}:  # Hydra's other flags (--cfg, --help, ...) are its own affair
        model_process().start()  # it imports PyTorch while this process finds out what is wanted
        Composer().check(argument for argument in arguments if argument not in flags)
    return arguments if flags else ["--multirun", *arguments]


if __name__ == "__main__":
    try:
        sys.argv[1:] = checked(sys.argv[1:])
    except UserError as error:
        model_process().close()
        sys.exit(f"error: {error}")
    try:
        main()
    finally:
        gc.freeze()  # else all that was imported is searched for garbage on the way out: 0.2 s
