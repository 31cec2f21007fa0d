"""Costs in FLOPs and seconds: of contrasts, as effective speedups, and as axes of figures."""

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
from tests.sweeper.results.synthetic import Model, Sweep, edited, match


def two_arms(seeds=5, seconds=(120.0, 100.0)):
    """Return a sweep of two arms, `standard` and `matched`, with equal FLOPs and these seconds."""
    sweep = Sweep(claims=["wins_at_equal_size"], figure="curves")
    noise = random.Random(11)
    equal = match("standard heads=4", "flops_per_token")
    losses = [[noise.gauss(43, 0.2) for _ in range(seeds)] for _ in range(2)]
    sweep.add("standard", Model(64, 4, 16), losses[0])
    sweep.add("matched", Model(64, 8, 8), losses[1], matched=equal)
    for point in sweep.points:
        of_arm = seconds[point["arm"] == "matched"]
        sweep.results[point["run"]]["seconds"] = of_arm * noise.gauss(1, 0.02)
    return sweep


def contrast(table):
    [verdict] = verdicts_on(table)
    [found] = verdict.numbers["contrasts"]
    return found


def test_a_slow_down_of_a_fifth_is_read_in_seconds_and_not_in_flops(tmp_path):
    table = two_arms().table()
    costs = contrast(table)["costs"]
    expected = pytest.approx(1 / 1.2, abs=0.03)
    assert costs == {"FLOPs": pytest.approx(1), "seconds": expected}

    [verdict] = judge(tmp_path, [table])[table.name]
    assert "at 1.00 x the FLOPs and 0.8" in verdict.effect
    assert verdict.effect[1:] in verdict.sentence
    kept = json.loads((tmp_path / "tables" / "fig1.claims.json").read_text())
    assert kept["verdicts"][0]["numbers"]["contrasts"][0]["costs"] == costs
    # A table written before the column existed has the same numbers.
    columns = [one for one in table.columns if one != "training_flops"]
    path = write_table(tmp_path, replace(table, columns=columns))
    assert contrast(read_table(path))["costs"] == costs


@pytest.mark.parametrize("device", ["GPU of {arm}", "A then B"])
def test_times_on_several_kinds_of_device_are_not_compared(device):
    table = edited(two_arms().table(), device=lambda row: device.format(**row))
    [verdict] = verdicts_on(table)
    assert "at 1.00 x the FLOPs, times not comparable" in verdict.sentence


def first_gpu(uuid):
    """Return what an attempt says of its GPU in a job that calls it 0."""
    return {"visible_gpus": "0", "hardware": {"uuid": uuid}}


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        ({"visible_gpus": "GPU-a"}, {"visible_gpus": "GPU-a"}, True),
        ({"visible_gpus": "GPU-a"}, {"visible_gpus": "GPU-b"}, False),
        (first_gpu("a"), first_gpu("a"), True),
        (first_gpu("a"), first_gpu("b"), False),
    ],
)
def test_times_of_runs_that_shared_a_gpu_are_not_compared(one, other, shared):
    sweep = two_arms(seeds=1, seconds=(1e6, 1e6))
    sweep.attempts = dict(zip(sweep.records, (one, other), strict=True))
    assert (contrast(sweep.table())["costs"]["seconds"] is None) == shared


OLD = [None] * 5


@pytest.mark.parametrize(
    ("standard", "matched", "comparable"),
    [
        ([0.02] * 5, [0.05] * 5, True),
        ([0.5] * 5, [0.5] * 5, True),
        ([0.02] * 5, [0.2] * 5, False),
        ([0.0] * 5, [0.5] * 5, False),
        ([0.4, 0.02, 0.02, 0.02, 0.02], [0.02] * 5, True),
        (OLD, [0.5] * 5, True),
        (OLD, OLD, True),
    ],
    ids="little even one-arm never-waited one-seed one-is-old old".split(),
)
def test_times_are_not_compared_if_other_programs_slowed_one_arm_more(
    tmp_path, standard, matched, comparable
):
    sweep = two_arms()
    for result, waited in zip(
        sweep.results.values(), [*standard, *matched], strict=True
    ):
        if waited is not None:
            result["waited_seconds"] = waited * result["seconds"]
    table = sweep.table()
    costs = contrast(table)["costs"]
    assert (costs["seconds"] is not None) == comparable
    assert ("waited_seconds" in table.columns) == any([*standard, *matched])
    assert contrast(read_table(write_table(tmp_path, table)))["costs"] == costs


def with_curves(table, times, seed=0):
    """Add training curves to a table. The standard arm needs `times` as many steps as the other."""
    noise = random.Random(seed)

    def curve(row):
        of_arm = times if row["arm"] == "standard" else 1
        final = 2 + noise.gauss(0, 0.01)
        return [
            (step, final + 9 * (step / of_arm) ** -0.3 + noise.gauss(0, 0.003))
            for step in range(188, 1505, 188)
        ]

    files = {row["run"]: RunFiles(curve=curve(row)) for row in table.rows}
    return replace(table, files=files)


def test_an_arm_that_needs_half_as_many_steps_again_reads_so():
    table = two_arms().table()
    near = covered = 0
    for repetition in range(20):
        speedup = contrast(with_curves(table, 1.5, repetition))["speedup"]
        value, low, high = speedup["FLOPs"]
        near += math.exp(value) == pytest.approx(1.5, abs=0.1)
        covered += low < math.log(1.5) < high
        assert math.exp(speedup["seconds"][0]) == pytest.approx(1.8, abs=0.2)
    assert near >= 18
    assert covered >= 18


def test_a_speedup_turns_with_its_sides():
    slower = contrast(with_curves(two_arms().table(), 1 / 1.5))["speedup"]
    assert math.exp(-slower["FLOPs"][0]) == pytest.approx(1.5, abs=0.1)
    speedup = {"FLOPs": [-0.4, -0.5, -0.3]}
    worse = Found("it", -0.1, -0.15, -0.05, "log ratio", {}, speedup)
    assert str(worse).endswith(", an effective slowdown of 1.49 [1.35, 1.65] in FLOPs")


@pytest.mark.parametrize(
    ("times", "seeds"), [(1.5, 2), (20.0, 5)], ids=["few seeds", "off the curve"]
)
def test_what_does_not_lie_on_a_curve_gives_no_speedup(times, seeds):
    found = contrast(with_curves(two_arms(seeds).table(), times))
    assert found["speedup"] == {}


@pytest.mark.parametrize(
    "other",
    [
        {"parent": "of-another-plan"},
        {"trainer.validate_every": 188},
        {"trainer.steps": 1504},
    ],
    ids=["parent", "rows", "steps"],
)
def test_curves_that_cannot_be_compared_give_no_speedup(other):
    """The curve of a child does not show its parent's cost, and samples differ in their rows."""
    table = with_curves(two_arms().table(), 1.5)
    for row in table.rows:
        config = table.files[row["run"]].config
        config["task.name"] = "pretraining"
        if row["arm"] == "matched":
            row |= other
            config |= other
    assert contrast(table)["speedup"] == {}


def test_seeds_that_are_to_come_change_no_speedup():
    sweep = two_arms(4)
    sweep.points.pop(3)  # the last seed of the standard arm
    table = with_curves(sweep.table(), 1.5)
    assert contrast(table)["speedup"]["FLOPs"][0] == pytest.approx(0.4, abs=0.1)


@pytest.mark.parametrize("schedule", ["rsqrt", "linear", "cosine"])
def test_curves_are_read_under_a_schedule_without_decay_to_zero(tmp_path, schedule):
    sweep = two_arms(seeds=3)
    for record in sweep.records.values():
        record.config["optimizer"] = {"schedule": schedule}
    sweep.attempts = {run: {} for run in sweep.results}
    store = RunStore(sweep.write(tmp_path))
    for place, run in enumerate(sweep.results):
        with store.run(run).attempt(1).metrics() as metrics:
            for step in (49, 97):
                loss = 99 - step - 0.1 * place**2
                metrics.write({"step": step, "validation/loss": loss})
    [table] = collect(tmp_path)
    [verdict] = verdicts_on(table)
    steady = schedule == "rsqrt"
    assert ("FLOPs" in contrast(table)["speedup"]) == steady
    assert (f"schedule={schedule}" in verdict.sentence) != steady


@pytest.mark.parametrize("x", ["seconds", "training_flops"])
def test_a_figure_shows_a_table_over_its_costs(x):
    table = two_arms(seconds=(120.0, 60.0)).table()
    [axes] = figure_of(replace(table, experiment={**table.experiment, "x": x})).axes
    drawn = [line.get_xdata()[0] for line in axes.lines if len(line.get_xdata()) == 1]
    costs = [row[x] for row in table.rows]  # five seeds per arm
    assert drawn == pytest.approx([sum(costs[:5]) / 5, sum(costs[5:]) / 5])
