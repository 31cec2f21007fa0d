"""More seeds of some points: the same plan with further runs, also of what these start from."""

from __future__ import annotations

import pytest

from sweeper.plan.planner import with_seeds


def seeds(plan, experiment, arm, **values):
    """The seeds that a point has in a plan, by task."""
    found = {}
    for point in plan.points:
        own = {key.rpartition(".")[2]: value for key, value in point.values.items()}
        if (point.experiment, point.arm) == (experiment, arm) and values.items() <= own.items():
            found.setdefault(point.task, []).append(point.seed)
    return found


def first_run(plan, arm, task="lm1b"):
    return next(point.run for point in plan.points if (point.arm, point.task) == (arm, task))


def test_without_wishes_a_plan_is_what_it_was(plan):
    found = plan("experiment=fig1")
    again = with_seeds(found, {})
    assert (again.points, again.runs) == (found.points, found.runs)


def test_one_point_has_more_seeds_and_the_others_their_own(plan):
    found = plan("model.heads=2,4", "model.head_size=3", "seed=5,2")
    more = with_seeds(found, {found.points[0].run: 5})
    name = found.points[0].experiment
    assert seeds(more, name, "grid", heads=2) == {"lm1b": [5, 2, 6, 7, 8]}
    assert seeds(more, name, "grid", heads=4) == {"lm1b": [5, 2]}
    assert {run: more.runs[run] for run in found.runs} == found.runs


def test_a_model_that_two_arms_share_has_its_seeds_in_both(plan):
    found = plan("experiment=fig1", "scale=paper", "seed=0")
    shared = next(
        point for point in found.points if point.arm == "fixed" and point.values["model.heads"] == 8
    )
    more = with_seeds(found, {shared.run: 3})
    of_it = [point for point in more.points if point.seed > 0]
    assert {(point.arm, point.seed) for point in of_it} == {
        (arm, seed) for arm in ("fixed", "standard") for seed in (1, 2)
    }
    assert len(more.runs) == len(found.runs) + 2


def test_a_fine_tuning_of_a_further_seed_starts_from_a_further_pre_training(plan):
    found = plan("experiment=fig2", "scale=gpu", "seed=0")
    more = with_seeds(found, {first_run(found, "fixed", "mnli"): 2})
    [child] = [point for point in more.points if point.task == "mnli" and point.seed == 1]
    parent = more.runs[more.runs[child.run].parent]
    assert (parent.config["task"]["name"], parent.config["seed"]) == ("pretraining", 1)
    assert not [point for point in more.points if point.task == "squad" and point.seed == 1]
    assert len(more.runs) == len(found.runs) + 2


@pytest.mark.parametrize("wanted", [0, 1, 2])
def test_no_point_ever_loses_seeds(plan, wanted):
    found = plan("model.heads=2,4", "model.head_size=3", "seed=0,1")
    assert with_seeds(found, dict.fromkeys(found.runs, wanted)).points == found.points
