"""A config that no run can have is refused with one sentence that says what to do."""

import inspect
from pathlib import Path

import pytest
from torch import nn

from sweeper.store.errors import UserError
from sweeper.store.identity import INTRODUCED_AS
from sweeper.store.registry import ARCHITECTURES, ATTENTION, TASKS, class_of, made_of, names
from tasks.config.architecture import Architecture, variant
from tasks.module import TaskModule
from tasks.parse import parse, recorded_config
from tests.tasks.jobs import config, freeze

SENTENCES = {
    "zero": ({"model.heads": 0}, "model.heads=0: expected a whole number from 1 to"),
    "text": ({"model.heads": "4"}, 'model.heads="4": expected a whole number'),
    "real": ({"model.heads": 4.0}, "model.heads=4.0: expected a whole number"),
    "truth": ({"model.heads": True}, "model.heads=true: expected a whole number"),
    "too many": ({"model.heads": 10**9}, "model.heads=1000000000: expected a whole number"),
    "missing": ({"model.heads": ...}, "model.heads=(missing): expected a whole number"),
    "not a divisor": (
        {"model.heads": 5, "model.head_size": None},
        "model.heads=5: expected a divisor of model.embedding_size=17, or a value for "
        "model.head_size; give it as model.heads=1, or set model.head_size.",
    ),
    "no head size": (
        {"model.head_size": [5, "x"]},
        "model.head_size=[5, 'x']: expected a whole number from 1 to 65536, or null",
    ),
    "head size of nothing": ({"model.head_size": []}, "model.head_size=[]: expected a whole"),
    "head sizes of three layers": (
        {"model.head_size": [5, 7, 5]},
        "model.head_size=[5, 7, 5]: expected an entry for each of model.layers=2; "
        "give it as model.head_size=[5, 7].",
    ),
    "head sizes of two heads": (
        {"model.head_size": [5, [7, 11]]},
        "expected one size for each of model.heads=3 in a layer's list; "
        "write such a list as [7, 11, 7].",
    ),
    "unknown": ({"model.headsize": 4}, "write model.head_size."),
    "unknown group": ({"modle": {}}, "write model."),
    "unlike anything": ({"model.zzz": 4}, "leave it out."),
    "variant's option": (
        {"model.attention": {"name": "multi_head", "rank": 3}},
        "attention.rank=3",
    ),
    "variant's size of nothing": (
        {"model.attention": {"name": "decoupled", "value_size": 0}},
        "model.attention.value_size=0: expected a whole number of at least 1",
    ),
    "no variant": ({"model.attention": {"name": "nope"}}, "expected one of "),
    "variant as a word": (
        {"model.attention": "multi_head"},
        "model.attention=multi_head: expected a group of keys with a name; choose one of "
        "conf/model/attention, as in model/attention=multi_head.",
    ),
    "no rotation": (
        {
            "model.position_encoding": "rotary",
            "model.rotary_size": 2,
            "model.attention": {"name": "collaborative"},
        },
        "model.attention.name=collaborative: expected a variant that takes a rotation, since "
        "model.position_encoding=rotary; choose one of decoupled, grouped_query, latent, ",
    ),
    "odd heads turned": (
        {"model.position_encoding": "rotary"},
        "model.head_size=5: expected even sizes, since model.position_encoding=rotary rotates "
        "pairs of numbers; give it as model.head_size=6, or set model.rotary_size.",
    ),
    "one odd head turned": (
        {"model.position_encoding": "rotary", "model.head_size": [4, [6, 7, 6]]},
        "model.head_size=7: expected even sizes",
    ),
    "odd part turned": (
        {"model.position_encoding": "rotary", "model.rotary_size": 3},
        "model.rotary_size=3: expected an even number of at least 2, or null",
    ),
    "odd part of a latent head turned": (
        {
            "model.position_encoding": "rotary",
            "model.attention": {"name": "latent", "rotary_size": 3},
        },
        "model.attention.rotary_size=3: expected even sizes",
    ),
    "more turned than there is": (
        {"model.position_encoding": "rotary", "model.rotary_size": 6},
        "model.rotary_size=6: expected at most model.head_size=5",
    ),
    "nothing to turn": (
        {"model.rotary_size": 4},
        "model.rotary_size=4: expected model.position_encoding=rotary with this key, not "
        "model.position_encoding=sinusoidal; leave out model.rotary_size.",
    ),
    "base of nothing": (
        {"model.position_encoding": "none", "model.rotary_base": 500.0},
        "model.rotary_base=500.0: expected model.position_encoding=rotary with this key",
    ),
    "no base": (
        {"model.position_encoding": "rotary", "model.rotary_base": 1.0},
        "model.rotary_base=1.0: expected a number above 1",
    ),
    "no task": ({"task.name": "lm2b"}, "task.name=lm2b: expected one of "),
    "path as a task": ({"task.name": "../lm1b"}, "task.name=../lm1b: expected one of "),
    "module as a task": ({"task.name": "train"}, "task.name=train: expected one of "),
    "task as a word": ({"task": "lm1b"}, "task=lm1b: expected a group of keys"),
    "no architecture": ({"model.name": "lm1b"}, "model.name=lm1b: expected one of "),
    "section gone": ({"optimizer": None}, "optimizer=null: expected a group of keys"),
    "part of a row": (
        {"task.batch_tokens": 100},
        "task.batch_tokens=100: expected a multiple of task.sequence_length=31; "
        "give it as task.batch_tokens=93.",
    ),
    "tiny vocabulary": ({"task.vocabulary_size": 7}, "task.vocabulary_size=7: expected"),
    "vocabulary over two bytes": ({"task.vocabulary_size": 65_536}, "expected a whole number"),
    "not finite": ({"optimizer.learning_rate": float("nan")}, "optimizer.learning_rate=nan"),
    "one beta": ({"optimizer.betas": [0.9]}, "optimizer.betas=[0.9]: expected two numbers"),
    "beta of one": ({"optimizer.betas": [0.9, 1.0]}, "expected two numbers"),
    "precision": ({"trainer.precision": "16"}, 'trainer.precision="16": expected one of 32-true'),
    "schedule": (
        {"optimizer.schedule": "triangle"},
        "expected one of rsqrt, linear, cosine, bert, constant",
    ),
    "warm-up too long": (
        {"optimizer.schedule": "linear", "optimizer.warmup_steps": 19},
        "optimizer.warmup_steps=19: expected fewer than trainer.steps=19",
    ),
    "whole number with a point": ({"trainer.steps": 20.0}, "give it as trainer.steps=20."),
    "number as a truth": ({"trainer.compile": 1}, "trainer.compile=1: expected true or false"),
    "folder not named": ({"data.source": "local"}, "data.root=null: expected the folder"),
    "dataset not named": ({"data.source": "hub"}, "data.hub.path=null: expected the id"),
    "nothing to generate": ({"data.sentences": None}, "data.sentences=null: expected a number"),
    "too few sentences to divide": (
        {"data.sentences": 3},
        "data.sentences=3: expected a whole number from 500 to",
    ),
    "as many names as families": (
        {"data.competitors": 7, "data.directions": 7},
        "data.directions=7: expected more than data.competitors=7",
    ),
    "no number of names": ({"data.competitors": None}, "data.competitors=null: expected a number"),
    "families not told": ({"data.directions": None}, "data.directions=null: expected a number"),
    "three at once": ({"seed": -1, "model.heads": 0, "model.layers": 0}, "(and 2 more: "),
}


@pytest.mark.parametrize("name", SENTENCES)
def test_one_sentence_names_the_key_the_value_and_the_remedy(name):
    changes, words = SENTENCES[name]
    with pytest.raises(UserError) as caught:
        parse(config(changes))
    sentence = str(caught.value)
    assert words in sentence
    assert sentence.count("\n") == 0
    assert "; " in sentence
    assert sentence.endswith(".")


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"optimizer.learning_rate": 1, "optimizer.gradient_clip": None},
        {"optimizer.warmup_steps": 0, "optimizer.schedule": "linear"},
        {"trainer.validate_every": 0, "trainer.checkpoint_every": 0},
        {"model.head_size": None, "model.heads": 17},
        {"model.head_size": [5, 7]},
        {"model.position_encoding": "rotary", "model.rotary_size": 4},
        {"model.position_encoding": "rotary", "model.head_size": [[2, 4, 6], 4]},
        {"model.normalisation": "rms", "model.feedforward": "gated", "model.biases": False},
        {"model.head_size": [[2, 3, 5], 7]},
        {"data.digest": "sha256:0", "data.directions": 0},
    ],
    ids=lambda changes: ", ".join(changes) or "as it is",
)
def test_a_config_that_a_run_can_have_is_taken_as_it_is(changes):
    assert parse(config(changes)).model_dump() == config(changes)


def test_what_is_suggested_is_accepted():
    refused = [changes for changes, _ in SENTENCES.values() if len(changes) == 1]
    followed = 0
    for changes in refused:
        with pytest.raises(UserError) as caught:
            parse(config(changes))
        advice = str(caught.value).rpartition("give it as ")[2].rstrip(".")
        key, equals, value = advice.partition("=")
        if equals and [key] == list(changes) and value.isdecimal():
            parse(config({key: int(value)}))
            followed += 1
    assert followed > 5


@pytest.mark.parametrize("name", names(ATTENTION))
def test_every_attention_variant_is_taken_with_its_own_options_alone(name):
    parameters = inspect.signature(variant(name)).parameters.values()
    options = {
        option.name: option.default if option.default is not option.empty else 3
        for option in parameters
        if option.kind is option.KEYWORD_ONLY and option.name not in ("bias", "dropout")
    }
    section = {"name": name, **options}
    run = parse(config({"model.attention": section}))
    assert run.model.attention.model_dump() == section
    layer = run.model.attention.builder()(17, 3, 5, bias=False, dropout=0.0)
    assert isinstance(layer, nn.Module)


def test_every_file_that_says_it_is_a_task_or_an_architecture_is_one():
    assert "lm1b" in names(TASKS)
    assert "decoder" in names(ARCHITECTURES)
    for kind, base in ((TASKS, TaskModule), (ARCHITECTURES, Architecture)):
        for name in names(kind):
            assert issubclass(class_of(kind, name, "name", base), base)


def test_a_record_of_before_a_key_came_reads_as_if_it_held_what_was_in_effect():
    text = {"data.source": "local", "data.root": "somewhere", **INTRODUCED_AS}
    for key in INTRODUCED_AS:
        assert parse(config({**text, key: ...})) == parse(config(text)), key


def test_a_run_whose_package_is_gone_names_it_and_its_version(outputs, installed):
    installed("gone_package", "", {ATTENTION.group: "gone = gone_package"})
    made = made_of(ATTENTION, "gone")
    run = freeze(outputs, {"model.attention": {"name": "gone"}})
    run.claim({"packages": [made]})
    (Path(installed.folder) / "gone_package-1.2.3.dist-info" / "entry_points.txt").unlink()
    installed.forget()
    with pytest.raises(UserError) as raised:
        recorded_config(run)
    assert str(raised.value) == (
        "run=small: expected the package gone-package==1.2.3, which has its attention variant "
        "gone; install that package."
    )
