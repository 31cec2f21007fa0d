"""What answers would cost is told before anything of a plan is trained, from what there is."""

from __future__ import annotations

import re

import pytest
from rich.console import Console

from sweeper.results.collect import collect
from sweeper.results.deciding_costs import print_costs
from sweeper.store.plans import write_plan
from sweeper.store.runs import RunStore
from tests.sweeper.results.synthetic import Model, Sweep

MARGIN = {"test/perplexity": {"size": "1 %", "reason": "Less would make no one choose."}}
PRICE = r"fixed_keeps_improving +undecided .*?(\d+)/(\d+)/(\S+)"


def sweep(size, *, done):
    """Fixed heads at an embedding size, three seeds a point that scatter by 1 %."""
    made = Sweep(claims=("fixed_keeps_improving",), margin=MARGIN)
    for heads in (2, 4, 8):
        values = {seed: 40 * (1 + 0.01 * ((5 * seed + heads) % 7 - 3)) for seed in range(3)}
        measured = values if done else dict.fromkeys(values)
        made.add("fixed", {"model.heads": heads}, Model(size, heads, 16), measured)
    return made


@pytest.fixture
def told(tmp_path, capsys):
    """What is printed of a plan of which nothing is trained, after earlier ones."""

    def told(*earlier):
        for plan in earlier:
            write_plan(tmp_path, plan)
        now = sweep(32, done=False)
        now.write(tmp_path)
        hour = dict.fromkeys(now.records, 3600.0)
        write_plan(tmp_path, {**now.plan, "estimate": hour, "command": ["again"]})
        print_costs(Console(width=200), RunStore(tmp_path), collect(tmp_path))
        return capsys.readouterr().out

    return told


def test_without_a_finished_run_no_price_is_made_up(told):
    said = told()
    assert not re.search(PRICE, said)
    assert "hydra.sweeper.pilot=2" in said


def test_runs_of_an_earlier_plan_of_other_points_say_how_far_seeds_lie_apart(told, tmp_path):
    said = told(sweep(64, done=True).write(tmp_path) and sweep(64, done=True).plan)
    [(seeds, runs, hours)] = re.findall(PRICE, said)
    assert int(seeds) > 3
    assert int(runs) == 3 * int(seeds)
    assert float(hours) == pytest.approx(int(runs), rel=0.05)  # an hour each, as it was planned
    assert "also that of 9 seeds of earlier plans" in said


def test_another_scale_says_nothing(told, tmp_path):
    earlier = sweep(64, done=True)
    earlier.write(tmp_path / "elsewhere")
    assert not re.search(PRICE, told({**earlier.plan, "scale": "gpu"}))
