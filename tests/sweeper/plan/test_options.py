"""Tests of every option, experiment and scale in conf/."""

import pytest
import yaml

from sweeper.plan.compose import CONF
from sweeper.stages.decide import check_claims
from sweeper.store.registry import (
    ARCHITECTURES,
    ATTENTION,
    FIGURES,
    TASKS,
    names,
)
from tests.sweeper.plan.conftest import each, points


def at(scale):
    """Return a scale as a parameter. Scales other than demo are tested only by the slow tests."""
    return pytest.param(scale, marks=() if scale == "demo" else pytest.mark.slow)


# The quick tests leave these out. They plan fig2 for fine-tuning, and cache for matching.
LONG = ("collaborative", "table1", "table2a", "table2b", "table3")
# An experiment without `scales` is the same at each scale, so two scales are enough.
EXPERIMENTS = [
    pytest.param(
        path.stem,
        scale,
        marks=pytest.mark.slow if path.stem in LONG else at(scale).marks,
    )
    for path in sorted((CONF / "experiment").glob("*.yaml"))
    for scale in yaml.safe_load(path.read_text())["experiment"].get(
        "scales", ["demo", "paper"]
    )
]
LARGER_SCALES = [at(scale) for scale in ("demo", "gpu", "paper")]


@pytest.mark.parametrize(
    ("group", "kind"),
    [("model/attention", ATTENTION), ("model", ARCHITECTURES), ("task", TASKS)],
    ids=["attention", "architecture", "task"],
)
def test_everything_registered_has_a_yaml_and_the_other_way_round(group, kind):
    preset = {"today"}  # another name for an architecture
    assert {path.stem for path in (CONF / group).glob("*.yaml")} - preset == {
        *names(kind)
    }


@pytest.mark.parametrize(("name", "scale"), EXPERIMENTS)
def test_every_experiment_plans_at_every_scale_it_defines(plan, name, scale):
    found = plan(f"experiment={name} scale={scale}")
    [experiment] = found.experiments.values()
    assert {point.arm for point in found.points} == set(experiment.arms)
    assert experiment.figure in names(FIGURES)
    check_claims(found)  # raises UserError if the points cannot decide a claim
    for point in (
        one for one in found.points if one.matched and not found.runs[one.run].parent
    ):
        match, made = experiment.arms[point.arm].match, point.matched
        assert found.runs[point.run].size[match.count] == made.achieved
        assert made.error == pytest.approx(made.achieved / made.target - 1)
        assert abs(made.error) <= match.tolerance
    order = [*found.runs]
    for run in found.runs.values():
        assert run.parent is None or order.index(run.parent) < order.index(run.id)


def sizes(found, arm):
    runs = (found.runs[point.run] for point in points(found, arm=arm))
    return {run.size["params_total"] for run in runs}


@pytest.mark.parametrize("scale", LARGER_SCALES)
def test_models_of_one_width_have_one_size_whatever_their_heads(plan, scale):
    found = plan(f"experiment=equal_width scale={scale}")
    assert len({(point.arm, *point.values.values()) for point in found.points}) >= 7
    assert len(sizes(found, "narrow")) == len(sizes(found, "wide")) == 1
    found = plan(f"experiment=head_sizes scale={scale}")
    assert len({*map(str, each(found, "model.head_size"))}) == 4
    assert len({run.size["params_total"] for run in found.runs.values()}) == 1
