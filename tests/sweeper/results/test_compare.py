"""Comparing two sweeps: what differs, seed by seed, and which claims have another answer."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from sweeper.results.collect import collect
from sweeper.results.compare import compare, differences
from sweeper.store.errors import UserError
from sweeper.store.files import with_checksum
from tests.sweeper.results.synthetic import METRIC, Model, Sweep

HEADS = (2, 4, 8)


def sweep(outputs, *, fixed=40.0, seeds=(0, 1, 2, 3, 4)):
    """Heads of a fixed size beside larger standard models, with seeds that scatter by 1 %."""
    made = Sweep(claims=("small_beats_large",))
    for arm, size, middle in (("standard", 64, 40.0), ("fixed", 32, fixed)):
        for heads in HEADS:
            values = {
                seed: middle + 0.4 * ((seed * 7 + heads) % 5 - 2) for seed in seeds
            }
            made.add(arm, {"model.heads": heads}, Model(size, heads, 16), values)
    return made.write(outputs)


def compared(capsys, *words, outputs="outputs"):
    code = compare(Console(width=200, highlight=False), outputs, *map(str, words))
    return code, capsys.readouterr().out


@pytest.mark.parametrize(
    ("models", "told"),
    [("1", "nothing that trains"), ("2", "models")],
    ids=["same", "edited"],
)
def test_versions_are_told_beside_whether_results_differ(
    tmp_path, capsys, models, told
):
    one, other = sweep(tmp_path / "one"), sweep(tmp_path / "other")
    for folder, code, parts in (
        (one, "aaa", {"models": "1"}),
        (other, "bbb", {"models": models}),
    ):
        for path in folder.glob("runs/*/attempts/*/attempt.json"):
            facts = {"code": code, "code_parts": parts, "versions": {"torch": "2.8"}}
            path.write_text(
                json.dumps(with_checksum(json.loads(path.read_text()) | facts))
            )
    code, said = compared(capsys, one, other)
    assert code == 0
    assert f"code: aaa -> bbb ({told} changed)" in said
    assert "torch:" not in said
    assert (
        "30 of 30 values of shared seeds are equal to the last digit: nothing" in said
    )
    assert "Every claim that both judge has the same verdict." in said


def test_precision_and_learning_rates_of_runs_are_told(tmp_path, capsys):
    one, other = sweep(tmp_path / "one"), sweep(tmp_path / "other")
    rates = {"2": (0.01, 0.03), "4": (0.03, 0.1), "8": (0.1, 0.1)}
    for place, folder in enumerate((one, other)):
        for path in folder.glob("runs/*/run.json"):
            record = json.loads(path.read_text())
            config = record["config"]
            rate = rates[str(config["model"]["heads"])][place]
            config["optimizer"] = {"learning_rate": rate}
            config["trainer"] = {
                "precision": ("32-true", "bf16-mixed")[place],
                "threads": place,
            }
            path.write_text(json.dumps(with_checksum(record)))
    _, said = compared(capsys, one, other)
    assert said.splitlines()[1:3] == [
        "  optimizer.learning_rate: 0.01, 0.03 -> 0.03, 0.1 (4 points)",
        "  trainer.precision: 32-true -> bf16-mixed (6 points)",
    ]


def test_sweeps_without_a_common_point_have_no_differences(tmp_path):
    [table] = collect(sweep(tmp_path))
    other = replace(table, rows=[{**row, "point": "heads=99"} for row in table.rows])
    head, *missing = differences(table, other)
    assert ": 0 points in both; " in head
    assert missing == [
        "  missing in the first: 10 not planned.",
        "  missing in the second: 30 not planned.",
    ]


def test_a_flipped_claim_is_named_and_told_by_the_exit_code(tmp_path, capsys):
    one, other = (
        sweep(tmp_path / "one", fixed=36.0),
        sweep(tmp_path / "other", fixed=44.0),
    )
    code, said = compared(capsys, one, other)
    assert code == 1
    assert re.search(r"FLIPPED small_beats_large.*: supported -> not supported", said)
    assert "15 of 30 values" in said
    assert len(re.findall(r"fixed heads=\d: mean 3\S+ -> 4\S+ \(\+22", said)) == 3
    assert "standard heads" not in said


def test_a_claim_that_flips_by_its_margin_or_its_points_says_so(tmp_path, capsys):
    random = np.random.default_rng(7)
    scatter = 0.1 * random.standard_normal((4, 5))

    def made(name, size, heads, error=0.05):
        margin = {METRIC: {"size": size, "reason": "It does not matter."}}
        one = Sweep(
            claims=("fixed_keeps_improving",), margin=margin, labels={"fixed": "fixed"}
        )
        one.error = error
        for number, own in zip(heads, scatter, strict=False):
            seeds = dict(enumerate(40 + own))
            one.add("fixed", {"model.heads": number}, Model(32, number, 16), seeds)
        return one.write(tmp_path / name)

    wide, narrow = made("wide", "40 %", HEADS), made("narrow", "0.001 %", HEADS)
    code, said = compared(capsys, wide, narrow)
    assert (code, "nothing differs" in said) == (1, True)
    assert "the margin -> undecided (margin 40 % -> 0.001 %)" in said
    surer = made("surer", "40 %", HEADS, error=0.01)
    code, said = compared(capsys, wide, surer)
    assert code == 0
    assert "per subword: error 0.05 -> 0.01; confidence 95 % -> 99 %" in said
    _, said = compared(capsys, wide, made("more", "0.001 %", (*HEADS, 16)))
    assert "(margin 40 % -> 0.001 %; it rests on other points)" in said
    _, said = compared(capsys, wide, made("fewer", "0.001 %", HEADS[:1]))
    assert "undecided (it rests on other points)" in said


@pytest.mark.parametrize(
    ("seeds", "cells", "told"),
    [
        ((3, 4), {METRIC: None, "state": "failed"}, "2 failed"),
        (range(5), {METRIC: math.nan}, "5 done without it"),
    ],
    ids=["seeds", "a point"],
)
def test_values_that_one_table_lacks_are_counted(tmp_path, seeds, cells, told):
    [table] = collect(sweep(tmp_path))
    lost = {f"lm1b-d32-h2x16-s{seed}" for seed in seeds}
    rows = [{**row, **(cells if row["run"] in lost else {})} for row in table.rows]
    _, *_, line = differences(table, replace(table, rows=rows))
    assert line == f"  missing in the second: {told}."


def test_an_arm_with_a_metric_of_its_own_is_compared(tmp_path):
    tables = []
    for folder, middle in (("one", 40.0), ("other", 44.0)):
        made = Sweep(claims=(), labels={"b": "b"})
        made.add("b", {"model.heads": 2}, Model(64, 2, 16), {0: middle, 1: middle})
        tables.append(made.table(tmp_path / folder))
        tables[-1].experiment["arms"]["b"]["metric"] = "test/loss"
    heads = [line for line in differences(*tables) if not line.startswith("  ")]
    assert [head.partition(":")[0] for head in heads] == [
        "test perplexity per subword",
        "test loss (nats per subword)",
    ]


def test_without_shared_seeds_means_are_compared(tmp_path, capsys):
    one = sweep(tmp_path / "one")
    other = sweep(tmp_path / "other", seeds=(10, 11, 12, 13, 14))
    code, said = compared(capsys, one, other)
    assert code == 0
    assert "0 of 0 values of shared seeds" in said
    assert len(re.findall(r"heads=\d: mean \S+ -> \S+ \([+-]\S+%\)", said)) == 6


def test_a_claim_that_one_of_them_judges_is_named(tmp_path, capsys):
    folders = [tmp_path / "one", tmp_path / "other"]
    for folder, claims in zip(folders, ((), ("fixed_keeps_improving",)), strict=True):
        made = Sweep(claims=claims)
        for heads in HEADS:
            made.add(
                "fixed",
                {"model.heads": heads},
                Model(32, heads, 16),
                {0: 40.0, 1: 41.0},
            )
        made.write(folder)
    code, said = compared(capsys, *folders)
    assert code == 0
    assert re.search(rf"fixed_keeps_improving.*: only {folders[1]} judges it", said)


def test_plans_and_experiments_are_named_in_folders_or_without(tmp_path, capsys):
    folder = sweep(tmp_path / "one")
    names = [
        folder,
        "fig1",
        "1",
        folder / "fig1",
        folder / "1",
        folder / "plans" / "0001.json",
    ]
    for name in names:
        code, said = compared(capsys, names[0], name, outputs=folder)
        assert (code, "nothing differs" in said) == (0, True), name
    for name in ("7", "fig3", "elsewhere/fig1"):
        with pytest.raises(UserError, match="expected"):
            compare(Console(), folder, str(folder), name)
