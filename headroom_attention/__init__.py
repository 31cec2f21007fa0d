"""The Python interface of Headroom, for a notebook or a script.

    import headroom_attention as headroom

    headroom.plan(["model.heads=4,8"])                    the runs of a sweep, before training
    headroom.sweep(["model.heads=4,8"])                   train them
    headroom.table("fig1")                                the results, a pandas DataFrame
    headroom.verdicts("fig1"), headroom.figure("fig1")    the verdicts on the claims, the figure
    headroom.judge(frame, better="lower")                 verdicts on scores from any source
    run = headroom.runs("fig1", {"model.heads": 8})[0]    a single run; or headroom.run(id)
    run.model(), run.tokenizer(), run.batch()             its trained model, tokenizer and inputs
    run.module(), run.data()                              for pl.Trainer (docs/lightning.md)
    run.attention()                                       its attention weights

The argument `outputs` is the folder that a sweep wrote, "outputs" by default. An invalid argument
raises `UserError`, whose message names the argument and says what to do.

After `import headroom_attention`, the packages `models`, `tasks` and `sweeper` can be imported too.
"""

import sys
from pathlib import Path

HOUSE = Path(__file__).resolve().parent
# A wheel has `sweep.py` and the packages `models`, `tasks` and `sweeper` in this folder. A checkout
# has them in the parent folder.
if not (HOUSE / "sweep.py").is_file():
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
