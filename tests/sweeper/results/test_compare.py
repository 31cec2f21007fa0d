"""The comparison of two sweeps: their differences, and the claims whose verdict flipped."""

import json
import re

import pytest
from rich.console import Console

from sweeper.results.collect import collect
from sweeper.results.compare import compare, differences
from sweeper.store.errors import UserError
from sweeper.store.files import with_checksum
from tests.sweeper.results.synthetic import METRIC, Model, Sweep, edited

BEATS, IMPROVES = "small_beats_large", "fixed_keeps_improving"


def sweep(outputs, *, arms=(), fixed=40.0, seeds=range(5), claims=BEATS, **about):
    """Write a sweep with heads of a fixed size and larger standard models. Seeds vary by 1 %."""
    made = Sweep(claims=[claims] if claims else [], **about)
    for arm, size, mean in (("standard", 64, 40.0), ("fixed", 32, fixed), *arms):
        for n in (2, 4, 8):
            values = {s: mean + 0.4 * ((s * 7 + n) % 5 - 2) for s in seeds}
            made.add(arm, Model(size, n, 16), values)
    return made.write(outputs)


def edit(folder, pattern, change):
    """Edit the JSON files that match a pattern, and update their checksums."""
    for path in folder.glob(pattern):
        value = json.loads(path.read_text())
        change(value)
        path.write_text(json.dumps(with_checksum(value)))


def compared(capsys, *words, outputs="outputs"):
    code = compare(Console(width=200, highlight=False), outputs, *map(str, words))
    return code, capsys.readouterr().out


def test_versions_are_told_beside_whether_results_differ(tmp_path, capsys):
    one, other = sweep(tmp_path / "one"), sweep(tmp_path / "other")
    attempts = "runs/*/attempts/*/attempt.json"
    edit(one, attempts, lambda facts: facts.update(code="aaa"))
    edit(other, attempts, lambda facts: facts.update(code="bbb"))
    code, said = compared(capsys, one, other)
    assert code == 0
    assert "code: aaa -> bbb" in said
    assert "torch:" not in said
    assert "30 of 30 values of shared seeds are equal to the last digit: n" in said
    assert "Every claim that both sweeps judge has the same verdict." in said


def test_precision_and_learning_rates_of_runs_are_told(tmp_path, capsys):
    folders = [sweep(tmp_path / name) for name in ("one", "other")]
    settings = (
        ("32-true", {2: 0.01, 4: 0.03, 8: 0.1}),
        ("bf16-mixed", {2: 0.03, 4: 0.1, 8: 0.1}),
    )
    for folder, (precision, rates) in zip(folders, settings, strict=True):

        def change(record, precision=precision, rates=rates):
            rate = rates[record["config"]["model"]["heads"]]
            record["config"]["optimizer"] = {"learning_rate": rate}
            trainer = {"precision": precision, "threads": len(precision)}
            record["config"]["trainer"] = trainer

        edit(folder, "runs/*/run.json", change)
    _, said = compared(capsys, *folders)
    assert said.splitlines()[1:3] == [
        "  optimizer.learning_rate: 0.01, 0.03 -> 0.03, 0.1 (4 points)",
        "  trainer.precision: 32-true -> bf16-mixed (6 points)",
    ]


def test_sweeps_without_a_common_point_have_no_differences(tmp_path):
    [table] = collect(sweep(tmp_path))
    head, *missing = differences(table, edited(table, point="heads=99"))
    assert ": 0 points in both; " in head
    assert missing == [
        "  missing in the first: 10 values.",
        "  missing in the second: 30 values.",
    ]


def test_a_flipped_claim_is_named_and_told_by_the_exit_code(tmp_path, capsys):
    one = sweep(tmp_path / "one", fixed=36.0)
    other = sweep(tmp_path / "other", fixed=44.0)
    code, said = compared(capsys, one, other)
    assert code == 1
    assert re.search(r"FLIPPED small_beats_large.*: supported -> not supported", said)
    assert "15 of 30 values" in said
    assert len(re.findall(r"fixed heads=\d: mean 3\S+ -> 4\S+ \(\+22", said)) == 3
    assert "standard heads" not in said


def test_a_claim_that_flips_by_its_margin_says_so(tmp_path, capsys):
    def made(name, size, error=0.05):
        margin = {METRIC: {"size": size, "reason": "It does not matter."}}
        return sweep(tmp_path / name, claims=IMPROVES, margin=margin, error=error)

    wide = made("wide", "40 %")
    code, said = compared(capsys, wide, made("narrow", "0.001 %"))
    assert (code, "nothing differs" in said) == (1, True)
    assert "the margin -> undecided (margin 40 % -> 0.001 %)" in said
    code, said = compared(capsys, wide, made("surer", "40 %", error=0.01))
    assert code == 0
    assert "per subword: error 0.05 -> 0.01; confidence 95 % -> 99 %" in said


def test_points_that_no_claim_uses_are_named_where_they_change_the_spread(
    tmp_path, capsys
):
    few = sweep(tmp_path / "few", claims=IMPROVES)
    more = sweep(tmp_path / "more", claims=IMPROVES, arms=[("further", 16, 40.0)])
    _, said = compared(capsys, few, more)
    words = "spread pooled over 30 values of 6 points -> 45 values of 9 points"
    assert words in said


def test_an_arm_with_a_metric_of_its_own_is_compared(tmp_path):
    [table] = collect(sweep(tmp_path))
    table.experiment["arms"]["fixed"]["metric"] = "test/loss"
    heads = [line.partition(":")[0] for line in differences(table, table)]
    assert heads == ["test perplexity per subword", "test loss (nats per subword)"]


def test_without_shared_seeds_means_are_compared(tmp_path, capsys):
    other = sweep(tmp_path / "other", seeds=range(10, 15))
    code, said = compared(capsys, sweep(tmp_path / "one"), other)
    assert code == 0
    assert "0 of 0 values of shared seeds" in said
    assert len(re.findall(r"heads=\d: mean \S+ -> \S+ \([+-]\S+%\)", said)) == 6


def test_a_claim_that_one_of_them_judges_is_named(tmp_path, capsys):
    one = sweep(tmp_path / "one", claims="")
    other = sweep(tmp_path / "other", claims=IMPROVES)
    code, said = compared(capsys, one, other)
    assert code == 0
    assert re.search(rf"fixed_keeps_improving.*: only {other} judges it", said)


def test_experiments_are_named_in_folders_or_without(tmp_path, capsys):
    folder = sweep(tmp_path / "one")
    for name in (folder, "fig1", folder / "fig1"):
        code, said = compared(capsys, folder, name, outputs=folder)
        assert (code, "nothing differs" in said) == (0, True), name
    for name in ("fig3", "elsewhere/fig1"):
        with pytest.raises(UserError, match="expected"):
            compare(Console(), folder, str(folder), name)
