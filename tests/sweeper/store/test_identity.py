"""The id of a run depends on the config keys that can change its result, and on no others."""

import copy
import functools
import json
import operator
import string
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from sweeper.plan.compose import CONF
from sweeper.store.identity import (
    INTRODUCED_AS,
    NOT_IN_IDENTITY,
    digest_of,
    identity,
    leaves,
    run_id,
)
from tests.policies import shipped
from tests.sweeper.store.test_files import HOSTILE_NAMES


@pytest.fixture(scope="module")
def config():
    return shipped().base(["scale=paper"]).run({})


def changed(config, values):
    made = OmegaConf.create(config)
    for key, value in values.items():
        OmegaConf.update(made, key, value, force_add=True)
    return OmegaConf.to_container(made)


def keys_and_ids(config, *, volatile):
    """Return keys of a config, each with the id of the run if the key has another value.

    `volatile` selects the keys that do not enter ids.
    """
    keys = [key for key in leaves(config) if below(key, NOT_IN_IDENTITY) == volatile]
    return {key: run_id(changed(config, {key: "something else"})) for key in keys}


def below(key, sections):
    return any(key == name or key.startswith(f"{name}.") for name in sections)


def test_every_key_that_can_change_a_result_changes_the_id(config):
    ids = keys_and_ids(config, volatile=False)
    assert len(ids) > 25
    assert len({*ids.values(), run_id(config)}) == len(ids) + 1


def test_paths_devices_loggers_and_cadences_do_not_change_the_id(config):
    ids = keys_and_ids(config, volatile=True)
    some = {"data.root", "trainer.devices", "logger.mode", "trainer.log_every"}
    assert some <= ids.keys()
    assert {*ids.values()} == {run_id(config)}


def test_runs_that_were_trained_keep_their_names(config):
    """If the id of a run changes, users have to train it again (CONTRIBUTING.md, run ids).

    The paper's settings must not change. Other scales may be tuned, which gives their runs new ids.
    """
    assert run_id(changed(config, INTRODUCED_AS)) == "lm1b-d256-h8-s0-5b0822e6411f"


def test_a_key_that_holds_what_it_was_introduced_with_renames_no_run(config):
    before = copy.deepcopy(config)
    for *sections, key in (name.split(".") for name in INTRODUCED_AS):
        del functools.reduce(operator.getitem, sections, before)[key]
    assert run_id(before) == run_id(changed(config, INTRODUCED_AS))
    others = [
        run_id(changed(config, {**INTRODUCED_AS, key: 13})) for key in INTRODUCED_AS
    ]
    assert len({run_id(before), *others}) == len(others) + 1 > 1


def test_key_order_and_number_spelling_do_not_change_the_id(config):
    backwards = {key: config[key] for key in reversed(config)}
    assert run_id(backwards) == run_id(config)
    assert digest_of({"a": 1e3}) == digest_of({"a": 1000})
    assert digest_of({"a": 0.001}) == digest_of({"a": 1e-3})
    assert digest_of({"a": True}) != digest_of({"a": 1})


def test_the_id_reads_as_task_sizes_seed_and_hash(config):
    head = run_id(changed(config, {"model.head_size": 32})).rpartition("-")[0]
    assert head == "lm1b-d256-h8x32-s0"


@pytest.mark.parametrize("text", HOSTILE_NAMES, ids=ascii)
def test_no_value_can_put_a_path_into_an_id(text):
    model = {"heads": text, "head_size": text}
    config = {"task": {"name": text}, "seed": text, "model": model}
    assert set(run_id(config)) <= {*string.ascii_letters, *string.digits, "-"}


KNOWN = Path(__file__).with_name("identity_keys.json")
GROUPS = ("task", "model", "model/attention", "data", "optimizer", "trainer")
OPTIONS = [
    f"{g}={path.stem}" for g in GROUPS for path in sorted((CONF / g).glob("*.yaml"))
]


def keys_of(option):
    """Return the keys of an option that enter the id of a run, whatever their values."""
    section = option.partition("=")[0].replace("/", ".")
    inner = [
        group.replace("/", ".") for group in GROUPS if group.startswith(f"{section}/")
    ]
    found = set(leaves(identity(shipped().base([option]).run({}))))
    return {
        key
        for key in found
        if below(key, [section]) and not below(key, [*inner, *INTRODUCED_AS])
    }


@pytest.mark.parametrize("option", OPTIONS)
def test_a_new_key_says_what_it_was_before_it_came(option):
    """A new key without a value in INTRODUCED_AS would change the ids of all runs that have it."""
    known = json.loads(KNOWN.read_text("utf-8"))
    assert option in known, (
        f"{option} is new: add the keys of its runs' names to {KNOWN.name}."
    )
    now, before = keys_of(option), {*known[option]}
    new, gone = now - before, before - now
    assert not new, (
        f"{', '.join(sorted(new))} of {option} would rename every run that has it: add each to "
        "INTRODUCED_AS in sweeper/store/identity.py, with what runs had in effect before it came, "
        "and give what reads it in tasks/ the same default; or, if it can change no result, to "
        "NOT_IN_IDENTITY."
    )
    assert not gone, (
        f"without {', '.join(sorted(gone))} every run of {option} is another run."
    )


def test_beside_the_groups_of_yaml_there_are_two_keys(config):
    sections = tuple(f"{group}." for group in GROUPS)
    found = [key for key in leaves(identity(config)) if not key.startswith(sections)]
    assert sorted({*found} - INTRODUCED_AS.keys()) == ["parent", "seed"], (
        "see INTRODUCED_AS"
    )
