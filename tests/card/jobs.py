"""The project's own jobs on the card: each in a process of its own, and what it did there."""

import json
import os

from tasks import train
from tasks.lm1b.task import LanguageModel
from tasks.module import TaskModule
from tasks.size_server.fork import become_job
from tasks.training import evaluate, progress
from tests.card.card import Card
from tests.tasks.jobs import at_call, config, freeze, kill_self, last_word
from tests.tasks.small import SMALL

TRAINER = {"accelerator": "gpu", "cuda_graph": False, "validate_every": 0, "checkpoint_every": 0}
FEW = {"steps": 7, "log_every": 100}
MANY = {"steps": 8, "log_every": 3}
BATCH = 5  # times as large as elsewhere: fewer of them are evaluated, and none costs more here
EXACT = {"representation": ("64-true", "64-true")}  # what it may be trained in
MANY_ROWS = {"task.batch_tokens": 61 * 31, "model.dropout": 0.0}


def everything(outputs):
    """Run all jobs; returns what the tests ask for, by name."""
    return {
        "ended": {name: _ended(outputs, name) for name in SMALL},
        "resumed": _resumed(outputs),
        "halved": _halved(outputs),
    }


def _ended(outputs, name):
    """A job of few rows in single precision, and one of a step and two rows more in bfloat16.

    Both log the loss of a few validation rows four times.
    """
    found = {}
    changes = {**SMALL[name], "optimizer.warmup_steps": 0}  # there are few steps
    if tokens := config(changes)["task"].get("batch_tokens"):
        changes["task.batch_tokens"] = BATCH * tokens
    single, half = EXACT.get(name, ("32-true", "bf16-mixed"))
    for precision, trainer, key in ((single, FEW, "few"), (half, MANY, "many")):
        run = _freeze(outputs, f"{name}-{key}", changes, precision, **trainer)
        found[key] = on_card(run)
        for kind, column in (("rows", "train/loss"), ("samples", "validation/loss")):
            found[key][kind] = sum(column in row for row in run.history())
    return found


def _resumed(outputs):
    run = _freeze(outputs, "resumed", {}, "bf16-mixed", steps=7, checkpoint_every=2)
    killed = on_card(run, before=lambda: at_call(LanguageModel, "totals", 6, kill_self))
    again = on_card(run)
    steps = [attempt.info()["resumed_from"] for attempt in run.attempts()]
    return {"killed": killed, "again": again, "steps": steps}


def _halved(outputs):
    whole = on_card(_freeze(outputs, "whole", MANY_ROWS, "bf16-mixed", steps=3))
    run = _freeze(outputs, "halved", MANY_ROWS, "bf16-mixed", steps=3)
    capacity = whole["peak"] - 1
    full = on_card(run, capacity=capacity)
    run.halve_micro_batches(run.attempts()[-1])
    halved = on_card(run, capacity=capacity)
    return {"whole": whole, "full": full, "halved": halved}


def _freeze(outputs, name, changes, precision, **trainer):
    settings = {**TRAINER, "precision": precision, **trainer}
    own = {f"trainer.{key}": value for key, value in settings.items()}
    return freeze(outputs, {**changes, **own}, name)


def on_card(run, *, before=lambda: None, capacity=None):
    """Do the job in a forked process, after `before`; returns its end and what the card saw."""
    report = run.path / "card.json"
    report.unlink(missing_ok=True)
    pid = os.fork()
    if pid == 0:
        become_job(lambda: _work(run, before, Card(capacity), report), log=None, close=())
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if not report.exists():
        return {"code": code}
    word = last_word(run)
    return {"code": code, "cause": word["cause"], "message": word["message"]} | json.loads(
        report.read_text()
    )


def _work(run, before, card, report):
    before()
    evaluate.moved = _marked(card, "evaluation", evaluate.moved)
    TaskModule.validation_step = _marked(card, "evaluation", TaskModule.validation_step)
    progress.sampled_loss = _marked(card, "sample", progress.sampled_loss)
    with card:
        code = train.main(str(run.path))
    seen = {
        "waits": [wait._asdict() for wait in card.waits],
        "peak": card.memory.peak,
        "undetermined": sorted(card.undetermined),
    }
    report.write_text(json.dumps(seen))
    return code


def _marked(card, phase, function):
    def marked(*args):
        card.phase, before = phase, card.phase
        try:
            return function(*args)
        finally:
            card.phase = before

    return marked
