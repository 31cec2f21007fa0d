"""A run is named by what determines its result, and by nothing else."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.hydra_section import composer
from sweeper.store.identity import INTRODUCED_AS, NOT_IN_IDENTITY, digest_of, run_id


@pytest.fixture(scope="module")
def config() -> dict:
    return composer().base(["scale=paper"]).run({})


def _set(config: dict, key: str, value: object) -> dict:
    changed = copy.deepcopy(config)
    *parents, last = key.split(".")
    node = changed
    for part in parents:
        node = node[part]
    node[last] = value
    return changed


def _leaves(tree: dict, prefix: str = ""):
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def _volatile(key: str) -> bool:
    return any(key == name or key.startswith(f"{name}.") for name in NOT_IN_IDENTITY)


def test_every_key_that_can_change_a_result_changes_the_id(config):
    keys = [key for key in _leaves(config) if not _volatile(key)]
    ids = [run_id(_set(config, key, "something else")) for key in keys]
    assert len(keys) > 25
    assert len({*ids, run_id(config)}) == len(keys) + 1


def test_paths_devices_loggers_and_cadences_do_not_change_the_id(config):
    keys = [key for key in _leaves(config) if _volatile(key)]
    assert {"data.root", "trainer.devices", "logger.mode", "trainer.log_every"} <= set(keys)
    assert {run_id(_set(config, key, "something else")) for key in keys} == {run_id(config)}


def _as_introduced(config: dict) -> dict:
    for key, value in INTRODUCED_AS.items():
        config = _set(config, key, value)
    return config


def test_runs_that_were_trained_keep_their_names(config):
    """A new name means that everything is trained again: see CONTRIBUTING.md, run ids.

    The paper's settings stand still; where another scale's are tuned, its runs get new names.
    """
    assert run_id(_as_introduced(config)) == "lm1b-d256-h8-s0-5b0822e6411f"


def test_a_key_that_holds_what_it_was_introduced_with_renames_no_run(config):
    before = copy.deepcopy(config)
    for section, _, key in (name.partition(".") for name in INTRODUCED_AS):
        del before[section][key]
    assert run_id(before) == run_id(_as_introduced(config))
    others = [run_id(_set(_as_introduced(config), key, 13)) for key in INTRODUCED_AS]
    assert len({run_id(before), *others}) == len(others) + 1 > 1


def test_key_order_and_number_spelling_do_not_change_the_id(config):
    backwards = {key: config[key] for key in reversed(config)}
    assert run_id(backwards) == run_id(config)
    assert digest_of({"a": 1e3}) == digest_of({"a": 1000})
    assert digest_of({"a": 0.001}) == digest_of({"a": 1e-3})
    assert digest_of({"a": True}) != digest_of({"a": 1})


def test_the_id_reads_as_task_sizes_seed_and_hash(config):
    head = run_id(_set(config, "model.head_size", 32)).rpartition("-")[0]
    assert head == "lm1b-d256-h8x32-s0"


@given(st.text(max_size=40))
def test_no_value_can_put_a_path_into_an_id(text):
    config = {"task": {"name": text}, "seed": text, "model": {"heads": text, "head_size": text}}
    assert set(run_id(config)) <= set(
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-"
    )
