"""Headroom from Python: what a sweep planned, trained and found, for a notebook or a script.

    import headroom_attention as headroom

    headroom.table("fig1")                                     rows as a pandas DataFrame
    headroom.verdicts("fig1"), headroom.figure("fig1")         what it says, and its picture
    headroom.judge(frame, better="lower")                      a verdict on anyone's scores
    run = headroom.runs("fig1", {"model.heads": 8})[0]         a run; or headroom.run(id)
    run.model(), run.tokenizer(), run.batch()                  the trained model and what it reads
    run.module(), run.data()                                   for pl.Trainer (docs/lightning.md)
    run.attention()                                            what its heads attend to
    headroom.plan(["model.heads=4,8"])                         what a sweep would train
    headroom.sweep(["model.heads=4,8"])                        and to train it

`outputs` is always the folder that a sweep wrote (default: outputs). An invalid name raises a
`UserError` of one sentence.

An installed package has all of the project's packages in this folder. This import makes `models`,
`tasks` and `sweeper` importable by their own names, as they are in a checkout.
"""

import sys
from pathlib import Path

HOUSE = Path(__file__).resolve().parent
if not (HOUSE / "sweep.py").is_file():  # a checkout: the same folders, one above
    HOUSE = HOUSE.parent
if str(HOUSE) not in sys.path:
    sys.path.insert(0, str(HOUSE))

from headroom_attention.experiments import figure, judge, plan, sweep, table, verdicts  # noqa: E402
from headroom_attention.trained import Run, run, runs  # noqa: E402
from sweeper.store.errors import UserError  # noqa: E402

__all__ = [
    "Run",
    "UserError",
    "figure",
    "judge",
    "plan",
    "run",
    "runs",
    "sweep",
    "table",
    "verdicts",
]
