"""Tests of plans: the points and runs of a command line. A fake size server computes the sizes."""

import copy
import io
import itertools
import re
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from sweeper.plan.match import LARGEST, solve
from sweeper.plan.seeds import with_seeds
from sweeper.plan.show import print_plan
from sweeper.stages.decide import check_claims
from sweeper.store.errors import UserError
from sweeper.store.identity import run_id
from sweeper.store.records import Record
from sweeper.store.runs import RunStore
from tests.refusals import refusal
from tests.sweeper.conftest import finish
from tests.sweeper.plan.conftest import each, points


def test_a_grid_is_the_product_of_its_axes_and_seeds_and_the_last_key_varies_fastest(
    plan,
):
    found = plan("model.heads=2,4 model.dropout=0.0,0.1,0.2 seed=3,5")
    assert len(found.points) == len(found.runs) == 12
    assert {p.seed for p in found.points} == {3, 5}
    values = dict.fromkeys(tuple(point.values.values()) for point in found.points)
    assert [*values] == list(itertools.product((2, 4), (0.0, 0.1, 0.2)))


def test_equal_points_are_one_run_and_other_text_is_another(plan):
    assert len(plan("seed=3,5,3").points) == 2
    assert len(plan("model.dropout=0.1,1e-1,0.10").runs) == 1
    assert len(plan("model.heads=8,8,4").points) == 2
    first, second = (plan(f"data=local data.root={root}").runs for root in "ab")
    assert not first.keys() & second.keys()


def test_every_text_of_an_experiment_is_named(plan, tmp_path):
    found = plan("data=local data.root=a,b model.heads=2,4")
    words = [f"text of local {tmp_path / folder}" for folder in "ab"]
    assert [*found.texts.values()] == [" and ".join(words)]


def test_experiments_of_one_command_have_one_scale(plan, with_experiment):
    text = """
# @package _global_
defaults: [override /scale: cpu]
experiment: {title: t, metric: test/loss, arms: {a: {grid: {model.heads: [2, 4]}}}}
"""
    conf = with_experiment("large", text)
    assert plan("experiment=large", conf=conf).scale == "cpu"
    assert plan("experiment=large,fig3 scale=demo", conf=conf).scale == "demo"
    for both, words in (
        ("large,fig3", "experiment=fig3 has scale=demo; sweep"),
        ("fig3,large", "experiment=large has scale=cpu; sweep"),
    ):
        assert words in refusal(plan, f"experiment={both}", conf=conf)


def test_what_is_known_is_not_asked_again_until_the_text_changes(
    plan, process, tmp_path
):
    (tmp_path / "text").mkdir()
    file = tmp_path / "text" / "a.txt"
    file.write_text("one")
    uneven = "model.layers=2 model.head_size=[3,4]"  # one of the widths is 3.5
    typed = f"model.heads=1,4 {uneven} data=local data.root={file.parent}"
    first, asked = plan(typed), [*process.asked]
    assert sorted(asked) == ["data", "size", "size"]
    again = plan(typed)
    assert (again.runs.keys(), again.texts) == (first.runs.keys(), first.texts)
    assert process.asked == asked
    file.write_text("two")
    plan(typed)
    assert process.asked == [*asked, "data"]


def test_a_model_that_two_arms_share_is_one_run_with_its_seeds_in_both(plan):
    """A fixed head size of d / h gives the same model as the standard rule (paper, Figure 3a)."""
    found = plan("experiment=fig1 scale=paper seed=0")
    by_point = {(p.arm, *p.values.values()): p.run for p in found.points}
    shared = by_point["fixed", 8]
    assert by_point["standard", 256, 8] == shared
    assert len(found.runs) == len(found.points) - 1
    more = with_seeds(found, {shared: 3})
    further = {(point.arm, point.seed) for point in more.points if point.seed > 0}
    assert further == {(arm, seed) for arm in ("fixed", "standard") for seed in (1, 2)}
    assert len(more.runs) == len(found.runs) + 2


def test_figure_1_at_paper_scale_has_the_published_counts(plan):
    """The expected numbers, in millions, come from the formula for the paper's models."""
    found = plan("experiment=fig1 scale=paper seed=0")
    totals = {
        (p.arm, *p.values.values()): round(
            found.runs[p.run].size["params_total"] / 1e6, 2
        )
        for p in found.points
    }
    sizes = [totals["standard", d, 8] for d in (256, 320, 384, 448, 512)]
    assert sizes == [13.12, 16.89, 20.86, 25.02, 29.38]
    assert totals["fixed", 4] == 12.34
    assert totals["fixed", 70] == 25.31
    # With these numbers of heads, the model is as large as the baseline at d = 320, 384, 448, 512.
    assert [key[1] for key in totals if key[0] == "matched"] == [27, 47, 69, 91]


@pytest.mark.parametrize(
    ("typed", "figure"),
    [
        ("fig3 model.heads=4,8", "fig3"),
        ("fig3 model.embedding_size=24,48 experiment.claims=[]", "curves"),
        ("fig1 model.layers=1,2 experiment.claims=[]", "curves"),
        ("fig1 model.layers=1,2 experiment.claims=[] experiment.figure=fig1", "fig1"),
        ("fig1 model.layers=2", "fig1"),
        ("fig1 +experiment.x=training_flops", "curves"),
        ("theorem1 task.sequence_length=5,7,11", "theorem1"),
        ("theorem1 seed=0,1", "theorem1"),
    ],
)
def test_a_figure_that_would_join_points_of_several_typed_values_gives_way(
    plan, typed, figure
):
    [experiment] = plan(f"experiment={typed}").experiments.values()
    assert experiment.figure == figure


def test_models_without_dropout_have_child_arms(plan):
    child = "{parent:bidirectional,set:{optimizer.learning_rate:0.01}}"
    found = plan(
        f"experiment=theorem1 +experiment.arms.tuned={child} experiment.claims=[]"
    )
    assert len(points(found, arm="tuned")) == len(points(found, arm="bidirectional"))


def test_every_value_of_a_typed_key_has_its_own_matched_points(plan):
    found = plan("experiment=fig1 seed=0 trainer.steps=20,40 experiment.claims=[]")
    named = [(point.arm, *point.values.values()) for point in found.points]
    assert len({*named}) == len(named)
    by_steps = Counter(point.values["trainer.steps"] for point in found.points)
    assert by_steps == dict.fromkeys((20, 40), len(found.points) // 2)
    for point in points(found, arm="matched"):
        assert f"steps={point.values['trainer.steps']}" in point.matched.to


@pytest.fixture
def trained(tmp_path):
    """The store of the folder into which plans are made."""
    return RunStore(tmp_path / "outputs")


def test_a_typed_parent_has_the_model_the_text_and_the_tokenizer_of_its_child(
    plan, trained
):
    [parent] = plan("task=pretraining seed=0 model.heads=2").runs.values()
    start = f"parent={parent.id} model.heads=2"
    child, same_task = f"task=mnli {start}", f"task=pretraining {start}"
    older = copy.deepcopy(parent.config)
    # The record was written before this key existed.
    assert older["model"]["attention"].pop("qk_norm") is False
    finish(trained.freeze(Record(parent.id, older, parent.size)), {})
    tokenizer = "task.tokenizer='text of sample None for pretraining'"
    [expected] = plan(child, tokenizer).runs
    # The model and the tokenizer need not be set.
    for typed in (child, child.removesuffix(" model.heads=2")):
        [found] = plan(typed).runs.values()
        assert (found.id, found.config["model"]["heads"]) == (expected, 2)
    for typed, told in {
        f"{child} task.tokenizer=x": "task.tokenizer=x: expected text of sample",
        f"task=mnli parent={parent.id} model.heads=4": "heads=4: expected 2, as in the",
        f"{child} model=decoder": "model.name=decoder: expected encoder",
        f"{same_task} task.vocabulary_size=99": "task.vocabulary_size=99",
        f"{same_task} data=local data.root=.": "data.digest=",
        f"{same_task} task.documents=file": "task.documents=file",
        f"{child} {tokenizer} model.attention.qk_norm=true": "qk_norm=true: expected "
        "False, as in the parent ",
    }.items():
        assert told in refusal(plan, typed)


@pytest.fixture
def published(plan, process, trained, tmp_path):
    """The run into which the fake process imports a folder that `transformers` saved."""
    [pretrained] = plan("task=pretraining model.heads=2").runs.values()
    task = {
        "name": "pretraining",
        "vocabulary_size": 301,
        "tokenizer": "published-0123",
    }
    config = {"seed": 0, "task": task, "model": pretrained.config["model"]}
    record = Record(run_id(config), config)
    finish(trained.freeze(record), {})
    process.imported = record.id
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "config.json").touch()
    return record


def test_a_published_model_gives_its_sizes_and_its_tokenizer(plan, published):
    [run] = plan("task=mnli parent=bert").runs.values()
    assert run.config["model"] == published.config["model"] | {"dropout": 0.0}
    assert run.config["parent"] == published.id
    task = {key: run.config["task"][key] for key in ("tokenizer", "vocabulary_size")}
    assert task == {"tokenizer": "published-0123", "vocabulary_size": 301}
    shared = "model/attention=collaborative model.attention.shared_size=5"
    [run] = plan("task=mnli parent=bert", shared).runs.values()
    assert run.config["model"]["attention"]["shared_size"] == 5
    for typed, told in {
        "task=pretraining": "task=pretraining: expected a task that can use",
        "task=mnli task.vocabulary_size=99": "task.vocabulary_size=99: expected 301",
        "task=mnli model.layers=3": "model.layers=3: expected 2, as in the",
    }.items():
        assert told in refusal(plan, typed, "parent=bert")
    told = refusal(plan, "task=mnli parent=[bert,bert]")
    assert "expected a folder" in told.partition("parent=")[2]


def test_a_published_model_takes_the_place_of_a_pre_training(plan, published):
    found = plan("experiment=table1 parent=bert")
    assert Counter(each(found, "task.name")) == {"squad": 4, "mnli": 4}
    assert {run.parent for run in found.runs.values()} == {published.id}
    assert all(point.values == {"model.heads": 2} for point in found.points)
    assert {*each(found, "model.heads")} == {2}
    check_claims(found)
    told = refusal(plan, "experiment=fig2 parent=bert")
    assert "expected an experiment with a single arm" in told
    told = refusal(plan, "experiment=table1 parent=bert model.heads=3")
    assert "model.heads=3: expected 2, as in the" in told


def test_figure_3_widens_the_layers_of_a_model_with_the_same_heads(plan):
    """The paper's rule is 64 h + 512. Biases and rounding cause small differences."""
    found = plan("experiment=fig3 scale=paper seed=0")
    standard = points(found, arm="standard")
    assert [point.values["model.heads"] for point in standard] == [4, 8, 16, 32, 64]
    for point in standard:
        model = found.runs[point.run].config["model"]
        assert model["feedforward_size"] == pytest.approx(
            64 * model["heads"] + 512, rel=0.002
        )
        assert abs(point.matched.error) < 0.001


def test_a_fine_tuning_has_the_dropout_of_its_own_task_and_the_rest_of_its_parent(plan):
    """Overrides of keys that only the pre-training has do not change the fine-tunings."""
    typed = "model.initializer_range=0.03 task.documents=blank_line"
    found = plan("experiment=fig2 scale=cpu seed=0", typed)
    by_task = {}
    for run in found.runs.values():
        by_task[run.config["task"]["name"]] = run.config["task"].get("documents")
        if run.parent:
            own, parents = run.config["model"], found.runs[run.parent].config["model"]
            assert (
                own["dropout"]
                == {"mnli": 0.1, "squad": 0.0}[run.config["task"]["name"]]
            )
            assert {**own, "dropout": 0.0} == parents
    assert by_task == {"pretraining": "blank_line", "mnli": None, "squad": None}
    told = refusal(plan, "experiment=fig2 task.document=blank_line")
    assert "task.document is not a key" in told


def test_what_is_typed_wins_over_the_experiment(plan):
    typed = "model.embedding_size=16,32 model.layers=2 seed=7 model.head_size=2"
    found = plan("experiment=attention_rank", typed)
    assert {p.values["model.embedding_size"] for p in found.points} == {16, 32}
    for key, value in {"model.layers": 2, "model.head_size": 2, "seed": 7}.items():
        assert {*each(found, key)} == {value}
    # The experiment sweeps both keys together. Each override sets only one of them.
    found = plan("experiment=equal_width seed=0 model.heads=3")
    assert {point.values["model.heads"] for point in found.points} == {3}
    assert {*each(found, "model.heads")} == {3}
    found = plan("experiment=equal_width seed=0 model.heads=3 model.head_size=5,7")
    assert len(found.runs) == 2
    assert len(found.points) == 2 * len({point.arm for point in found.points})


def test_one_point_has_more_seeds_and_the_others_their_own(plan):
    found = plan("model.heads=2,4 model.head_size=3 seed=5,2")
    more = with_seeds(found, {found.points[0].run: 5})
    seeds = [(point.values["model.heads"], point.seed) for point in more.points]
    assert seeds == [*((2, seed) for seed in (5, 2, 6, 7, 8)), (4, 5), (4, 2)]
    assert {run: more.runs[run] for run in found.runs} == found.runs
    for wanted in ({}, dict.fromkeys(found.runs, 0), dict.fromkeys(found.runs, 2)):
        again = with_seeds(found, wanted)  # seeds are never removed
        assert (again.points, again.runs) == (found.points, found.runs)


def test_further_seeds_of_the_largest_seed_are_the_smallest_ones(plan):
    found = plan("seed=4294967294,4294967295")
    more = with_seeds(found, {found.points[0].run: 4})
    assert [p.seed for p in more.points] == [4294967294, 4294967295, 0, 1]


def test_a_fine_tuning_of_a_further_seed_starts_from_a_further_pre_training(plan):
    found = plan("experiment=fig2 scale=gpu seed=0")
    [first, *_] = points(found, arm="fixed", task="mnli")
    more = with_seeds(found, {first.run: 2})
    [child] = points(more, task="mnli", seed=1)
    parent = more.runs[more.runs[child.run].parent]
    assert (parent.config["task"]["name"], parent.config["seed"]) == ("pretraining", 1)
    assert not points(more, task="squad", seed=1)
    assert len(more.runs) == len(found.runs) + 2


@pytest.mark.parametrize("seeds", ["seed=5", "seed=5,2", "+experiment.seeds=[5,2,3]"])
def test_seeds_that_share_a_pre_training_do_not_choose_its_seed(plan, seeds):
    typed = "experiment=table1 ++experiment.pretrainings=one model.heads=3"
    found = plan(typed, seeds)
    [pretraining] = [run for run in found.runs.values() if not run.parent]
    assert pretraining.config["seed"] == 0
    assert {run.parent for run in found.runs.values()} == {pretraining.id, None}


CONTINUED = """# @package _global_
defaults: [{override /task: pretraining}, {override /model: encoder}]
experiment:
  title: one pre-training, continued and fine-tuned
  metric: validation/loss
  pretrainings: one
  finetune: {mnli: [test/accuracy_matched]}
  arms: {short: {}, continued: {parent: short, set: {trainer.steps: 7}}}
"""


def test_fine_tunings_start_from_the_pre_training_of_their_arm(plan):
    found = plan(text=CONTINUED)
    points = {(point.arm, point.task): found.runs[point.run] for point in found.points}
    for arm in ("short", "continued"):
        assert points[arm, "mnli"].parent == points[arm, "pretraining"].id
    assert (
        points["continued", "pretraining"].parent == points["short", "pretraining"].id
    )


def test_further_seeds_of_an_arm_with_a_parent_are_seeds_of_the_parent(plan):
    text = """
# @package _global_
experiment:
  title: A child and its parent
  metric: test/perplexity
  seeds: [2, 0]
  arms: {fixed: {}, child: {parent: fixed, set: {trainer.steps: 7}}}
"""
    found = plan(text=text)
    more = with_seeds(found, {points(found, arm="child")[0].run: 4})
    assert [p.seed for p in points(more, arm="child")] == [2, 0, 3, 4]
    assert {run.parent for run in more.runs.values()} - {None} <= more.runs.keys()


@pytest.mark.parametrize(
    "typed",
    [
        "experiment=fig1 experiment.tuned=true optimizer.weight_decay=${optimizer.learning_rate}",
        "experiment=fig1 optimizer.warmup_steps=${model.heads}",
        "seed=3,4 optimizer.warmup_steps=${seed}",
        "model.heads=${model.layers},2",
    ],
)
def test_a_value_cannot_refer_to_a_key_that_is_set_later(plan, typed):
    key, found, _ = refusal(plan, typed).partition(": expected no reference to ")
    assert found
    assert "=${" in key
    assert plan("optimizer.warmup_steps=2 trainer.log_every=${optimizer.warmup_steps}")


REFERRING = """
# @package _global_
experiment:
  title: An arm that refers to other keys
  metric: test/loss
  tune: {grid: {optimizer.learning_rate: [0.1, 0.2]}}
  arms: {a: {}}
  scales: {demo: {arms: {a: {ARM}}}}
"""


def warmups(found):
    keys = ("model.heads", "optimizer.warmup_steps")
    return [*zip(*(each(found, key) for key in keys), strict=True)]


def test_a_reference_has_the_value_of_its_point(plan):
    arm = "set: {optimizer.warmup_steps: '${model.heads}'}, grid: {model.heads: [2, 4]}"
    found = plan(text=REFERRING.replace("ARM", arm))
    assert warmups(found) == [(2, 2), (4, 4)]
    typed = "model.heads=3,17 optimizer.warmup_steps='${model.heads}'"
    found = plan("experiment=table1 seed=0", typed)
    assert warmups(found) == [*[(3, 3)] * 3, *[(17, 17)] * 3]


@pytest.mark.parametrize(
    "arm",
    [
        "set: {optimizer.warmup_steps: '${seed}'}",
        "set: {optimizer.warmup_steps: '${.learning_rate}'}",
        "set: {optimizer.warmup_steps: '${optimizer.learning_rate}'}",
        "set: {optimizer.warmup_steps: '${model.heads}'}, "
        "match: {to: 22000, solve: model.heads, tolerance: 9}",
        "grid: {model.heads: [2, '${model.layers}']}",
        "where: 'model.heads < ${model.layers}'",
    ],
)
def test_an_arm_refers_to_no_key_that_is_set_later_and_only_in_set(plan, arm):
    text = REFERRING.replace("ARM", arm)
    told, _, expected = refusal(plan, text=text).partition(": expected ")
    assert "${" in told
    assert "reference" in expected


def test_an_arm_with_a_parent_has_the_parents_model(plan):
    text = CONTINUED.replace("trainer.steps: 7", "model.activation: silu")
    assert "model.activation=silu: expected gelu" in refusal(plan, text=text)


@pytest.mark.parametrize(
    ("typed", "replaced"),
    [
        (
            "optimizer=inverse_sqrt,linear",
            ["schedule=linear warmup", "rate=0.04 warmup"],
        ),
        (
            "optimizer=inverse_sqrt optimizer.schedule=rsqrt",
            ["learning_rate=0.04 warmup"],
        ),
        ("optimizer=muon", []),
        ("optimizer=inverse_sqrt scale=paper", []),
        ("model=decoder,today", []),
    ],
)
def test_a_plan_names_the_values_of_an_optimizer_that_the_scale_replaces(
    plan, store, typed, replaced
):
    text = printed(plan(typed), store, 999)
    notes = [line for line in text.splitlines() if "replace values of" in line]
    assert len(notes) == len(replaced)
    assert all(words in note for words, note in zip(replaced, notes, strict=True))


def exhaustive(count, target, step):
    return min(range(step, 400 * step, step), key=lambda x: (abs(count(x) - target), x))


@given(
    constant=st.integers(0, 10**6),
    slope=st.integers(100, 10**5),
    bend=st.integers(0, 10**3),
    value=st.integers(1, 300),
    off=st.integers(-5000, 5000),
    step=st.sampled_from([1, 7]),
)
def test_the_nearest_value_is_found(constant, slope, bend, value, off, step):
    def count(x):
        return constant + slope * x + bend * x * x

    target = max(1, count(value) + off)
    solution, achieved = solve(count, target, step=step)
    best = exhaustive(count, target, step)
    assert abs(count(solution) - target) == abs(count(best) - target)
    assert solution % step == 0
    assert achieved == count(solution)


def test_a_count_that_is_no_parabola_is_still_solved():
    def count(x):
        return 100 * (x // 3) + x**3  # not a parabola, so the first guess is wrong

    for target in (1, 57, 5_000, 123_456):
        assert solve(count, target)[0] == exhaustive(count, target, 1)


def test_a_polynomial_size_takes_few_builds():
    built = []

    def count(x):
        built.append(x)
        return 8_000_000 + 786_432 * x

    assert solve(count, 29_380_000)[0] == 27
    assert len(set(built)) <= 6


def test_only_values_that_have_a_model_are_found():
    def divisor(x):  # x key/value heads for 12 heads
        return UserError(f"{x} does not divide 12.") if 12 % x else 1000 + 10 * x

    def multiple(x):  # x heads that share 4 key/value heads
        return UserError(f"4 does not divide {x}.") if x % 4 else 100 * x + x * x

    for count, values in ((divisor, [1, 2, 3, 4, 6, 12]), (multiple, range(4, 400, 4))):
        for target in (*range(900, 1200, 7), 20_000):
            best = min(values, key=lambda x: (abs(count(x) - target), x))
            assert solve(count, target) == (best, count(best))
    told = refusal(solve, lambda x: UserError(f"{x} is odd."), 8)
    assert "with the value 1, the error is: 1 is odd" in told


def test_what_cannot_be_reached_is_said_and_a_small_target_gives_the_smallest():
    assert solve(lambda x: 1000 + x, 10)[0] == 1


def test_a_size_beyond_every_tried_value_is_refused_with_the_largest_one():
    told = refusal(solve, int.bit_length, 100, step=8)
    assert f"no value up to {8 * LARGEST:,} reaches the size 100" in told
    assert "up to 1,048,576 reaches" in refusal(solve, lambda x: x, 2_000_000)
    told = refusal(solve, lambda x: UserError("") if x % 2 else x, 8000)
    assert "no value up to 4,096" in told


@pytest.mark.parametrize("target", [6, 7, 8])
def test_a_key_that_does_not_change_the_count_is_said(target):
    told = "does not change the size (it is 7 for "
    assert f"{told}5, 10, 15)" in refusal(solve, lambda x: 7, target, step=5)
    for_divisors = refusal(solve, lambda x: UserError("") if 9 % x else 7, target)
    assert f"{told}1, 3" in for_divisors


SOLVED = """# @package _global_
experiment:
  title: solved
  metric: test/loss
  arms:
    a:
      set: {model.head_size: 4}
      grid: {model.embedding_size: [8, 16]}
      where: model.heads <= 60
      match: {to: 22000, solve: model.heads, tolerance: 0.05}
"""


DIVIDED = """# @package _global_
experiment:
  title: heads of d/h
  metric: test/loss
  arms:
    a:
      set: {model.embedding_size: 16, model.head_size: null}
      grid: {model.heads: [2, 4]}
      where: model.head_size != 8
"""


def test_a_condition_sees_the_head_size_that_null_stands_for(plan):
    found = plan(text=DIVIDED)
    assert [point.values["model.heads"] for point in found.points] == [4]


def test_the_condition_of_a_matched_arm_is_about_the_solved_value(plan):
    found = plan(text=SOLVED)
    assert [point.values["model.embedding_size"] for point in found.points] == [16]


SHARED = """# @package _global_
experiment:
  title: one cache and one number of parameters
  metric: test/loss
  arms:
    own: {set: {model: today, model.heads: 2, model.head_size: 32, model.feedforward_size: 447}}
    grouped:
      set:
        model: today
        model/attention: grouped_query
        model.attention.key_value_heads: 2
        model.head_size: 32
      grid: {model.heads: [4, 8]}
      match: {to: own, solve: model.feedforward_size, tolerance: 0.01}
    latent:
      set: {model: today, model/attention: latent, model.attention.latent_size: 112}
      grid: {"model.heads,model.head_size": [[4, 32], [8, 24]]}
      match: {to: own, solve: model.feedforward_size, tolerance: 0.01}
    divisors:
      set: {model/attention: grouped_query, model.head_size: 8, model.heads: 12}
      match:
        {to: 192, count: cache_bytes_per_token, tolerance: 0,
         solve: model.attention.key_value_heads}
"""


def test_cache_and_parameters_are_matched_together(plan):
    found = plan("model.embedding_size=128", text=SHARED)
    sizes = [found.runs[point.run].size for point in found.points]
    assert [point.arm for point in found.points[::2]] == ["own", "grouped", "latent"]
    for size in sizes[:-1]:
        assert size["cache_bytes_per_token"] == sizes[0]["cache_bytes_per_token"]
        assert abs(size["params_total"] / sizes[0]["params_total"] - 1) < 0.01
    assert found.points[-1].values == {"model.attention.key_value_heads": 6}
    # The arm `own` has a single point, so its name alone is the name of the target.
    assert found.points[1].matched.to == "own"


def printed(made, store, width, **options):
    statuses = {run: store.run(run).status() for run in made.runs}
    console = Console(file=io.StringIO(), width=width)
    print_plan(console, made, statuses, **options)
    return console.file.getvalue()


def test_of_many_points_the_first_are_listed_and_all_if_asked(plan, store):
    heads = ",".join(map(str, range(1, 302)))
    made = plan(f"model.heads={heads} model.head_size=3 seed=0,1")
    lines = printed(made, store, 200).splitlines()
    assert len(lines) <= 60
    assert any(
        "and 261 more points (hydra.verbose=true lists all)" in line for line in lines
    )
    assert lines[-1].startswith("301 points, 602 runs")
    assert len(printed(made, store, 200, verbose=True).splitlines()) > 301


def test_at_80_columns_every_point_keeps_its_size_its_match_and_its_state(plan, store):
    made = plan("experiment=fig1")
    lines = printed(made, store, width=80).splitlines()
    points = {(point.arm, str(point.values)) for point in made.points}
    states = [line for line in lines if re.search(r"\b\d+ new\b", line)]
    assert len(states) >= len(points) > 5
    matched = [point.matched for point in made.points if point.matched]
    [head] = [line for line in lines if line.startswith("arm ")]
    column = slice(head.index("point"), head.index("params"))
    flat = " ".join(" ".join(line[column] for line in lines).split())
    assert all(f"matched to {one.to} ({one.count} " in flat for one in matched)
    assert not any("…" in line for line in lines)


def test_a_key_that_one_of_several_models_has_is_left_out_for_the_others(plan):
    given = "++model.type=gpt2 "
    found = plan("model=huggingface", given + "++model.options.n_ctx=3,5")
    options = [run.config["model"]["options"] for run in found.runs.values()]
    assert options == [{"n_ctx": 3}, {"n_ctx": 5}]
    found = plan("model=huggingface,decoder", given + "++model.typo=7")
    theirs, ours = (run.config["model"] for run in found.runs.values())
    assert theirs["type"] == "gpt2"
    assert "type" not in ours
    # The real size server would refuse this key.
    assert theirs["typo"] == ours["typo"] == 7


def test_a_relative_folder_in_place_of_a_hub_data_set_is_refused(plan, tmp_path):
    (tmp_path / "mytext").mkdir()
    told = refusal(plan, "data=hub data.hub.path=mytext")
    assert f"write data.hub.path={tmp_path / 'mytext'}" in told
