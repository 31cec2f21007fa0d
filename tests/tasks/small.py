"""A small config for each task, as changes to the config of tests/tasks/jobs.py."""

from tasks.parse import data_of, module_of, parse
from tasks.training.evaluate import evaluate
from tasks.training.steps import fabric_for
from tests.tasks.jobs import composed, config

_PIECES = "task.vocabulary_size=307 task.tokenizer_lines=500"
_ENCODER = """
model.layers=2 model.embedding_size=17 model.heads=3 model.head_size=5 model.feedforward_size=23
model.positions=71 model.initializer_range=0.1
"""
_FINE_TUNED = "optimizer.learning_rate=0.02 optimizer.warmup_steps=5 trainer.steps=7"


def _sections(*typed):
    """Compose a config from these overrides, and return its sections that tasks change."""
    made = composed(" ".join(typed))
    return {name: made[name] for name in ("task", "model", "optimizer", "trainer")}


PRETRAINING = _sections(
    "task=pretraining task.sequence_length=43 task.batch_tokens=129",
    "task.second_phase.steps=5 task.second_phase.warmup_steps=2",
    "task.second_phase.sequence_length=67 task.second_phase.batch_tokens=134",
    "optimizer.learning_rate=0.01 optimizer.warmup_steps=3",
    _PIECES,
    _ENCODER,
)
MNLI = _sections(
    "task=mnli task.sequence_length=37 task.batch_tokens=185",
    _PIECES,
    _ENCODER,
    _FINE_TUNED,
)
SQUAD = _sections(
    "task=squad task.sequence_length=29 task.batch_tokens=145 task.question_length=13",
    "task.stride=7 task.candidates=19 task.answer_length=11",
    _PIECES,
    _ENCODER,
    _FINE_TUNED,
)
REPRESENTATION = _sections(
    "task=representation task.sequence_length=5 task.problems_per_run=11",
    "model.embedding_size=7 model.head_size=3",
    "optimizer.warmup_steps=5 trainer.precision=64-true",
)
SMALL = {
    "lm1b": {},
    "pretraining": PRETRAINING,
    "mnli": MNLI,
    "squad": SQUAD,
    "representation": REPRESENTATION,
}


def local(root):
    """Return a section `data` that names a folder."""
    return {**config()["data"], "source": "local", "root": str(root)}


def data(changes={}, outputs=None):  # noqa: B006 (never changed)
    """Return the data of a small config, neither prepared nor opened."""
    return data_of(parse(config(changes)), outputs)


def made(changes={}):  # noqa: B006
    """Return the module of a small config. Its data are not opened."""
    return module_of(parse(config(changes)))


def prepared_folder(outputs, changes={}):  # noqa: B006
    """Prepare the data of a small config, and return their folder."""
    own = data(changes, outputs)
    own.prepare_data()
    return own.folder


def opened_data(outputs, changes={}):  # noqa: B006
    """Prepare, open and return the data of a small config."""
    own = data(changes, outputs)
    own.prepare_data()
    own.setup("fit")
    return own


def opened(outputs, changes={}):  # noqa: B006
    """Return the module of a small config. Its data are prepared and opened."""
    own = opened_data(outputs, changes)
    return module_of(own.config, own)


def evaluated(module, split="test", model=None):
    """Evaluate a split on the CPU and return its metrics. `model` replaces the module's model."""
    if model is not None:
        module.model = model
    fabric_for(module.config.trainer, "cpu").setup_module(module)
    return evaluate(module, split)
