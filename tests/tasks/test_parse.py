"""An invalid config is refused with one sentence, which names a remedy."""

import pytest

from sweeper.store.identity import INTRODUCED_AS
from sweeper.store.registry import ATTENTION, made_of, names
from tasks.parse import module_class, parse, recorded_config
from tests.refusals import refusal
from tests.tasks.jobs import composed, config, freeze

ROTARY = {"model.position_encoding": "rotary"}
SENTENCES = {
    "value": ({"model.heads": 0}, "model.heads=0: expected a whole number from 1 to"),
    "type": ({"model.heads": "4"}, 'model.heads="4": expected a whole number'),
    "missing": ({"model.heads": ...}, "model.heads=(missing): expected a whole number"),
    "not a divisor": (
        {"model.heads": 5, "model.head_size": None},
        "model.heads=5: expected a divisor of model.embedding_size=17, or a value for "
        "model.head_size; set model.heads=1, or set model.head_size.",
    ),
    "head sizes of two heads": (
        {"model.head_size": [5, [7, 11]]},
        "expected one size for each head in a layer's list (model.heads=3); correct the list "
        "[7,11].",
    ),
    "unknown": ({"model.headsize": 4}, "write model.head_size."),
    "unlike anything": ({"model.zzz": 4}, "remove it."),
    "no variant": ({"model.attention": {"name": "nope"}}, "expected one of "),
    "no rotation": (
        {
            **ROTARY,
            "model.rotary_size": 2,
            "model.attention": {"name": "collaborative"},
        },
        "model.attention.name=collaborative: expected a variant that supports "
        "model.position_encoding=rotary; choose model/attention=multi_head, or ",
    ),
    "several values": (
        {"model.heads": [2, 4]},
        "model.heads=[2,4]: expected a whole number from 1 to 65536; to sweep these values, "
        "use -m model.heads=2,4.",
    ),
    "no type of a union": (
        {"trainer.micro_batches": "x"},
        "a whole number from 1 to 1048576; set trainer.micro_batches=4.",
    ),
    "three at once": (
        {"seed": -1, "model.heads": 0, "model.layers": 0},
        ". Also correct ",
    ),
}
# The message begins with the first key.
REFUSED = [
    {"model.head_size": [5, "x"]},
    {"model.head_size": []},
    {"model.head_size": [5, 7, 5]},
    {"model.attention": {"name": "multi_head", "rank": 3}},
    {"model.head_size": [4, [6, 7, 6]], **ROTARY},
    {"model.head_size": [5, [7, 7, 11]], "model.attention": {"name": "collaborative"}},
    {"model.rotary_size": 3, **ROTARY},
    {"model.attention": {"name": "latent", "rotary_size": 3}, **ROTARY},
    {"model.rotary_size": 6, **ROTARY, "model.head_size": [4, 8]},
    {"model.rotary_base": 500.0, "model.position_encoding": "none"},
    {"task.name": "../lm1b"},
    {"model.name": "lm1b"},
    {"optimizer": None},
    {"task.batch_tokens": 100},
    {"task.sequence_length": 31, "task.longest": 16},  # a sliding window
    {"task.vocabulary_size": 7},
    {"optimizer.learning_rate": float("nan")},
    {"optimizer.betas": [0.9, 1.0]},
    {"optimizer.schedule": "polynomial"},
    {"optimizer.warmup_steps": 19, "optimizer.schedule": "linear"},
    {"data.root": None, "data.source": "local"},
    {"data.hub.path": None, "data.source": "hub"},
    {"data.sentences": None},
    {"data.sentences": 3},
    {"data.directions": 7, "data.competitors": 7},
]


def refused(changes):
    """Return the error message of a config with these changes, which has a remedy."""
    sentence = refusal(parse, config(changes))
    assert "; " in sentence
    assert sentence.endswith(".")
    return sentence


@pytest.mark.parametrize("name", SENTENCES)
def test_one_sentence_names_the_key_the_value_and_the_remedy(name):
    changes, words = SENTENCES[name]
    assert words in refused(changes)


@pytest.mark.parametrize("changes", REFUSED, ids=repr)
def test_a_config_that_no_run_can_have_is_refused_by_its_key(changes):
    assert refused(changes).startswith(next(iter(changes)))


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {
            "model.head_size": [5, [7, 7, 7]],
            "model.attention": {"name": "grouped_query", "key_value_heads": 1},
        },
        {**ROTARY, "model.rotary_size": 4},
        {**ROTARY, "model.head_size": [[2, 4, 6], 4]},
    ],
    ids=str,
)
def test_a_config_that_a_run_can_have_is_taken_as_it_is(changes):
    assert parse(config(changes)).model_dump(exclude_unset=True) == config(changes)


@pytest.mark.parametrize("name", names(ATTENTION))
def test_the_file_of_every_attention_variant_has_all_of_its_options(name):
    section = composed(f"model/attention={name}")["model"]["attention"]
    run = parse(config({"model.attention": section}))
    assert run.model.attention.model_dump() == section


def test_a_record_of_before_a_key_came_reads_as_if_it_held_what_was_in_effect():
    text = {"data.source": "local", "data.root": "somewhere", **INTRODUCED_AS}
    for key in INTRODUCED_AS:
        assert parse(config({**text, key: ...})) == parse(config(text)), key


def test_a_task_that_lacks_attributes_or_methods_is_refused_by_their_names(installed):
    source = """
from tasks.module import TaskModule

class Unfinished(TaskModule):
    architectures = ("decoder",)
    build = example = forward = totals = score = metrics = None
"""
    installed("unfinished", source, {"headroom.tasks": "unfinished = unfinished"})
    assert "it lacks Section, Data, counts; add them" in refusal(
        module_class, "unfinished"
    )


def test_a_run_whose_package_is_gone_names_it_and_its_version(outputs, installed):
    installed("gone_package", "", {ATTENTION.group: "gone = gone_package"})
    run = freeze(outputs, {"model.attention.name": "gone"})
    run.claim({"packages": [made_of(ATTENTION, "gone")]})
    [registration] = installed.folder.glob("gone_package-*/entry_points.txt")
    registration.unlink()
    installed.forget()
    assert "expected the package gone-package==" in refusal(recorded_config, run)
