"""Effects in compute and in seconds: costs beside contrasts, effective speedups, cost axes."""

import json
import math
import random
from dataclasses import replace

import pytest

from sweeper.results.collect import collect
from sweeper.results.figures import figure_of
from sweeper.results.judge import judge, verdicts_on
from sweeper.results.table import RunFiles, read_table, write_table
from sweeper.results.verdict import Found
from sweeper.store.runs import RunStore
from tests.sweeper.results.synthetic import Model, Sweep

STEPS = 1499


def two_arms(seeds=5, seconds=(120.0, 100.0)):
    """Two arms of equal FLOPs, `standard` and `matched`, and the seconds that their runs take."""
    sweep = Sweep(claims=["wins_at_equal_size"], figure="curves")
    match = {"to": "standard heads=4", "count": "flops_per_token", "error": 0.0}
    noise = random.Random(11)
    measured = [{seed: noise.gauss(43, 0.2) for seed in range(seeds)} for _ in range(2)]
    sweep.add("standard", {"model.heads": 4}, Model(64, 4, 16), measured[0])
    sweep.add("matched", {"model.heads": 8}, Model(64, 8, 8), measured[1], match)
    for point in sweep.points:
        of_arm = seconds[point["arm"] == "matched"]
        sweep.results[point["run"]]["seconds"] = of_arm * noise.gauss(1, 0.02)
    return sweep


def contrast(table):
    [verdict] = verdicts_on(table)
    [found] = verdict.numbers["contrasts"]
    return found


def test_a_slow_down_of_a_fifth_is_read_in_seconds_and_not_in_flops(tmp_path):
    table = two_arms().table(tmp_path)
    costs = contrast(table)["costs"]
    assert costs["FLOPs"] == pytest.approx(1)
    assert costs["seconds"] == pytest.approx(1 / 1.2, abs=0.03)

    [verdict] = judge(tmp_path, [table])[table.name]
    words = "at 1.00 x the FLOPs and 0.8"
    assert words in verdict.sentence
    assert words in verdict.effect
    kept = json.loads((tmp_path / "tables" / "fig1.claims.json").read_text())
    assert kept["verdicts"][0]["numbers"]["contrasts"][0]["costs"] == costs
    # A table from before the column has the same numbers.
    columns = [one for one in table.columns if one != "training_flops"]
    path = write_table(tmp_path, replace(table, columns=columns))
    assert contrast(read_table(path))["costs"] == costs


def of_two_kinds(table):
    rows = [{**row, "device": f"GPU {row['arm']}"} for row in table.rows]
    return replace(table, rows=rows)


def of_one_kind_then_another(table):
    return replace(table, rows=[{**row, "device": "A then B"} for row in table.rows])


@pytest.mark.parametrize("changed", [of_two_kinds, of_one_kind_then_another])
def test_times_on_other_devices_are_not_compared(tmp_path, changed):
    found = contrast(changed(two_arms().table(tmp_path)))
    assert found["costs"] == {"FLOPs": pytest.approx(1), "seconds": None}
    [verdict] = verdicts_on(changed(two_arms().table(tmp_path / "again")))
    assert "at 1.00 x the FLOPs, times not comparable" in verdict.sentence


@pytest.mark.parametrize("gpus", [["GPU-a"], ["GPU-a", "GPU-b"]])
def test_times_of_runs_that_shared_a_gpu_are_not_compared(tmp_path, gpus):
    sweep = two_arms(seeds=1, seconds=(1e6, 1e6))
    sweep.write(tmp_path, attempts=False)
    store = RunStore(tmp_path)
    for gpu, (run, result) in zip(2 * gpus, sweep.results.items(), strict=False):
        (store.run(run).path / "result.json").unlink()
        attempt = store.run(run).claim({"visible_gpus": gpu})
        store.run(run).publish_result(attempt, result)
        attempt.finish("done")
    [table] = collect(tmp_path)
    shared = len(gpus) == 1
    assert (contrast(table)["costs"]["seconds"] is None) == shared


def curve(times, noise):
    """The validation losses of a run that needs `times` as many steps as another."""
    steps = [math.ceil(STEPS / 8) * part for part in range(1, 8)] + [STEPS]
    offset = noise.gauss(0, 0.01)
    return [
        (step, 2 + 9 * (step / times) ** -0.3 + offset + noise.gauss(0, 0.003))
        for step in steps
    ]


def with_curves(table, times, seed=0, schedule="rsqrt"):
    """The table with curves; the standard arm needs `times` as many steps as the other."""
    noise = random.Random(seed)
    config = {"optimizer.schedule": schedule}
    files = {
        row["run"]: RunFiles(
            config, curve=curve(times if row["arm"] == "standard" else 1.0, noise)
        )
        for row in table.rows
    }
    return replace(table, files=files)


def test_an_arm_that_needs_half_as_many_steps_again_reads_so(tmp_path):
    table = two_arms().table(tmp_path)
    near = covered = 0
    for repetition in range(20):
        speedup = contrast(with_curves(table, 1.5, repetition))["speedup"]
        value, low, high = speedup["FLOPs"]
        near += math.exp(value) == pytest.approx(1.5, abs=0.1)
        covered += low < math.log(1.5) < high
        assert math.exp(speedup["seconds"][0]) == pytest.approx(1.8, abs=0.2)
    assert near >= 18
    assert covered >= 18


def test_a_speedup_turns_with_its_sides(tmp_path):
    table = two_arms().table(tmp_path)
    ahead, behind = (
        contrast(with_curves(table, times))["speedup"]["FLOPs"][0]
        for times in (1.5, 1 / 1.5)
    )
    assert ahead == pytest.approx(-behind, abs=0.1)
    better = Found(
        "a over b", 0.1, 0.05, 0.15, "log ratio", {}, {"FLOPs": [0.4, 0.3, 0.5]}
    )
    worse = replace(
        better, value=-0.1, low=-0.15, high=-0.05, speedup={"FLOPs": [-0.4, -0.5, -0.3]}
    )
    assert str(better).endswith(", an effective speedup of 1.49 [1.35, 1.65] in FLOPs")
    assert str(worse).endswith(", an effective slowdown of 1.49 [1.35, 1.65] in FLOPs")


@pytest.mark.parametrize(
    ("times", "seeds", "schedule"),
    [(1.5, 5, "linear"), (1.5, 5, "cosine"), (1.5, 2, "rsqrt"), (20.0, 5, "rsqrt")],
    ids=["linear", "cosine", "few seeds", "off the curve"],
)
def test_a_curve_that_cannot_be_read_gives_no_speedup(tmp_path, times, seeds, schedule):
    table = two_arms(seeds).table(tmp_path)
    if schedule == "rsqrt":
        table = with_curves(table, times)
    else:
        config = {"optimizer.schedule": schedule}
        table = replace(table, files={run: RunFiles(config) for run in table.files})
    assert contrast(table)["speedup"] == {}
    [verdict] = verdicts_on(table)
    assert (f"(schedule {schedule})" in verdict.sentence) == (schedule != "rsqrt")


@pytest.mark.parametrize("schedule", ["rsqrt", "linear"])
def test_curves_are_collected_where_they_can_be_read(tmp_path, schedule):
    sweep = two_arms(seeds=1)
    for record in sweep.records.values():
        record["config"]["optimizer"] = {"schedule": schedule}
    sweep.write(tmp_path, attempts=False)
    store = RunStore(tmp_path)
    for run, result in sweep.results.items():
        (store.run(run).path / "result.json").unlink()
        attempt = store.run(run).claim({})
        with attempt.metrics() as metrics:
            metrics.write({"step": 50, "train/loss": 4.0})
            metrics.write({"step": 97, "validation/loss": 3.0})
        store.run(run).publish_result(attempt, result)
    [table] = collect(tmp_path)
    expected = [(97, 3.0)] if schedule == "rsqrt" else []
    assert [list(own.curve) for own in table.files.values()] == [expected] * 2


@pytest.mark.parametrize("x", ["seconds", "training_flops"])
def test_a_figure_shows_a_table_over_its_costs(tmp_path, x):
    table = two_arms(seconds=(120.0, 60.0)).table(tmp_path)
    table = replace(table, experiment={**table.experiment, "x": x})
    [axes] = figure_of(table).axes
    [first, second] = (
        float(line.get_xdata()[0]) for line in axes.lines if len(line.get_xdata()) == 1
    )
    of_seeds = {
        arm: [row[x] for row in table.rows if row["arm"] == arm]
        for arm in ("standard", "matched")
    }
    assert [first, second] == pytest.approx(
        [sum(own) / len(own) for own in of_seeds.values()]
    )
