"""Tests that a new version reads and continues what an earlier version has trained."""

import shutil
from pathlib import Path

from sweeper.hydra_section import composer
from sweeper.plan.compose import CONF
from sweeper.results.collect import collect
from sweeper.stages.train import freeze
from sweeper.store import identity
from sweeper.store.plans import newest
from sweeper.store.runs import RunStore
from tasks.parse import parse
from tests.sweeper.plan.conftest import each

BEFORE = Path(__file__).with_name("commit_5941da1b")
"""What commit 5941da1b left of a grid of two runs: plan, records, results; no weights."""


def test_a_key_that_comes_leaves_every_id_as_it_was(plan, tmp_path, monkeypatch):
    words = "task=lm1b,mnli metric=test/loss"
    before = plan(words)
    conf = shutil.copytree(CONF, tmp_path / "conf")
    for place, line in (
        ("optimizer/inverse_sqrt", "look_ahead: 0"),
        ("optimizer/linear", "look_ahead: 0"),
        ("model/attention/multi_head", "sinks: false"),
        ("config", "averaging: {decay: null}"),
    ):
        path = conf / f"{place}.yaml"
        path.write_text(f"{path.read_text()}\n{line}\n")
    later = composer(conf)
    renamed = plan(words, conf=later)
    assert not renamed.runs.keys() & before.runs.keys()
    came = {
        "optimizer.look_ahead": 0,
        "model.attention.sinks": False,
        "averaging.decay": None,
    }
    for key, value in came.items():
        monkeypatch.setitem(identity.INTRODUCED_AS, key, value)
    after = plan(words, conf=later)
    assert after.points == before.points
    for key, value in came.items():
        assert {*each(after, key)} == {value}
    # The earlier records lack the new keys, but are still the records of these runs.
    store = RunStore(tmp_path / "outputs")
    freeze(before, store, {})
    records = [store.run(run).record() for run in store.ids()]
    freeze(after, store, {})
    assert [store.run(run).record() for run in store.ids()] == records


def test_results_of_an_earlier_version_are_read_and_extended_and_none_is_trained_again(
    plan, process, tmp_path
):
    outputs = shutil.copytree(BEFORE, tmp_path / "outputs")
    store = RunStore(outputs)
    old = {run: store.run(run).result() for run in store.ids()}
    assert len(old) == 2
    config = store.run(min(old)).record().config
    assert parse(config).trainer.steps == 20

    process.text = config["data"]["digest"]
    typed = " ".join(newest(outputs)["grid"]["command"][2:])
    data = [
        f"data.{key}={config['data'][key]}" for key in ("competitors", "directions")
    ]
    found = plan(typed.replace("heads=2,3", "heads=2,3,5"), *data)
    freeze(found, store, {})
    states = {run: store.run(run).status().state for run in found.runs}
    [new] = states.keys() - old.keys()
    assert states == {**dict.fromkeys(old, "done"), new: "new"}
    [table] = collect(outputs)
    measured = {row["run"]: row.get("test/loss") for row in table.rows}
    told = {run: result.metrics["test/loss"] for run, result in old.items()}
    assert measured == {run: told.get(run) for run in found.runs}
    assert {row.get("code") for row in table.rows} == {"5941da1b6d15", None}
