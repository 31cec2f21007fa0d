"""The comparison of two sweeps: their differences, and the claims whose verdict flipped."""

import io
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from rich.console import Console

from sweeper.results.compare import compare, differences
from sweeper.store.errors import UserError
from tests.sweeper.results.synthetic import Model, Sweep, edited, margin

BEATS, IMPROVES = "small_beats_large", "fixed_keeps_improving"


def sweep(*, arms=(), fixed=40.0, seeds=range(5), claims=BEATS, **about):
    """Return a sweep with heads of a fixed size and larger standard models. Seeds vary by 1 %."""
    made = Sweep(claims=[claims] if claims else [], **about)
    for arm, size, mean in (("standard", 64, 40.0), ("fixed", 32, fixed), *arms):
        for n in (2, 4, 8):
            values = {s: mean + 0.4 * ((s * 7 + n) % 5 - 2) for s in seeds}
            made.add(arm, Model(size, n, 16), values)
    return made


def compared(*sweeps):
    """Compare sweeps, and return the exit code and the output."""
    console = Console(file=io.StringIO(), width=200)
    with TemporaryDirectory() as folder:
        written = [one.write(Path(folder, str(n))) for n, one in enumerate(sweeps)]
        code = compare(console, folder, *map(str, written))
    return code, console.file.getvalue()


def test_versions_are_told_beside_whether_results_differ():
    one, other = sweep(), sweep()
    one.attempts = {run: {"code": "aaa"} for run in one.records}
    other.attempts = {run: {"code": "bbb"} for run in other.records}
    code, said = compared(one, other)
    assert code == 0
    assert "code: aaa -> bbb" in said
    assert "torch:" not in said
    assert "30 of 30 values with the same seed are equal to the last digit: n" in said
    assert "No verdict changed on the claims that both sweeps judge." in said


def configured(precision, rates):
    """Return a sweep of this precision, and of a learning rate for each number of heads."""
    made = sweep()
    for record in made.records.values():
        config = record.config
        config["optimizer"] = {"learning_rate": rates[config["model"]["heads"]]}
        config["trainer"] = {"precision": precision, "threads": len(precision)}
    return made


def test_precision_and_learning_rates_of_runs_are_told():
    one = configured("32-true", {2: 0.01, 4: 0.03, 8: 0.1})
    other = configured("bf16-mixed", {2: 0.03, 4: 0.1, 8: 0.1})
    _, said = compared(one, other)
    assert said.splitlines()[1:4] == [
        "  optimizer.learning_rate: 0.01 -> 0.03 (2 points)",
        "  optimizer.learning_rate: 0.03 -> 0.1 (2 points)",
        "  trainer.precision: 32-true -> bf16-mixed (6 points)",
    ]


def test_a_key_that_is_null_in_one_sweep_and_absent_in_the_other_is_no_change():
    one, other = sweep(), sweep()
    for record in one.records.values():
        record.config["optimizer"] = {"gradient_clip": None}
    assert "gradient_clip" not in compared(one, other)[1]


def test_sweeps_without_a_common_point_have_no_differences():
    table = sweep().table()
    head, *missing = differences(table, edited(table, point="heads=99"))
    assert ": 0 points in both; " in head
    assert missing == [
        "  missing in the first: 10 values.",
        "  missing in the second: 30 values.",
    ]


def test_a_flipped_claim_is_named_and_told_by_the_exit_code():
    code, said = compared(sweep(fixed=36.0), sweep(fixed=44.0))
    assert code == 1
    assert re.search(
        r"FLIPPED small_beats_large.*: verdict: supported -> not supported", said
    )
    assert "15 of 30 values" in said
    assert len(re.findall(r"fixed heads=\d: mean 3\S+ -> 4\S+ \(\+22", said)) == 3
    assert "standard heads" not in said


def test_a_claim_that_flips_by_its_margin_says_so():
    def made(size, error=0.05):
        return sweep(claims=IMPROVES, margin=margin(size), error=error)

    code, said = compared(made("40 %"), made("0.001 %"))
    assert (code, "nothing differs" in said) == (1, True)
    assert "the margin -> undecided; margin: 40 % -> 0.001 %" in said
    code, said = compared(made("40 %"), made("40 %", error=0.01))
    assert code == 0
    assert "per subword: error: 0.05 -> 0.01; confidence: 95 % -> 99 %" in said


def test_points_that_no_claim_uses_are_named_where_they_change_the_spread():
    more = sweep(claims=IMPROVES, arms=[("further", 16, 40.0)])
    _, said = compared(sweep(claims=IMPROVES), more)
    words = "pooled over 30 values of 6 points -> pooled over 45 values of 9 points"
    assert words in said


def test_an_arm_with_a_metric_of_its_own_is_compared():
    table = sweep().table()
    table.experiment["arms"]["fixed"]["metric"] = "test/loss"
    heads = [line.partition(":")[0] for line in differences(table, table)]
    assert heads == ["test perplexity per subword", "test loss (nats per subword)"]


def test_sweeps_that_no_metric_judges_both_are_told_to_share_no_claim():
    one, other = sweep(), sweep()
    other.metric = "test/loss"
    code, said = compared(one, other)
    assert code == 0
    assert "subword: only the first sweep is judged by this metric" in said
    assert "test loss (nats per subword): only the second sweep is judged" in said
    assert "same verdict" not in said


def test_without_shared_seeds_means_are_compared():
    code, said = compared(sweep(), sweep(seeds=range(10, 15)))
    assert code == 0
    assert "0 of 0 values with the same seed" in said
    assert len(re.findall(r"heads=\d: mean \S+ -> \S+ \([+-]\S+%\)", said)) == 6


def test_a_claim_that_one_of_them_judges_is_named():
    code, said = compared(sweep(claims=""), sweep(claims=IMPROVES))
    assert code == 0
    assert re.search(r"fixed_keeps_improving.*: only the second sweep judges it", said)


def test_experiments_are_named_in_folders_or_without(tmp_path, capsys):
    folder = sweep().write(tmp_path)
    for name in (folder, "fig1", folder / "fig1"):
        assert compare(Console(), folder, str(folder), str(name)) == 0
        assert "nothing differs" in capsys.readouterr().out
    for name in ("fig3", "elsewhere/fig1"):
        with pytest.raises(UserError, match="expected"):
            compare(Console(), folder, str(folder), name)
