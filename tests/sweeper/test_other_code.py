"""Tests that runs of other code are reported, kept, and trained again on request."""

import pytest

from sweeper.plan.plan import Plan
from sweeper.results.collect import collect, write_tables
from sweeper.results.judge import verdicts_on
from sweeper.results.table import exported, read_table
from sweeper.results.verdict import Decision
from sweeper.stages.other_code import in_words, of_other_code, refuse_mixing
from sweeper.store.attempts import Cause
from sweeper.store.changes import Changes, state_of_files
from sweeper.store.code import Code, differing, needed, pin
from sweeper.store.plans import write_plan
from sweeper.store.records import Record
from sweeper.store.registry import named_by
from sweeper.store.runs import RunStore, State
from tests.refusals import refusal
from tests.sweeper.conftest import finish
from tests.sweeper.results.synthetic import few
from tests.tasks.jobs import config

MULTI_HEAD = "models/attention/multi_head.py"
TODAY = Code.read()


def edited(path, old, new):
    """Return the present code with one place in a file changed. An empty `old` is its beginning."""
    source = TODAY.files[path].replace(old, new, 1)
    return Code(TODAY.root, {**TODAY.files, path: source})


SCALED = edited(MULTI_HEAD, b"scale=1 /", b"scale=0.1 /")


@pytest.mark.parametrize(
    ("path", "old", "new", "counts"),
    [
        (MULTI_HEAD, b"scale=1 /", b"scale=0.1 /", True),
        (MULTI_HEAD, b"", b"# a comment\n\n", False),
        ("models/block.py", b'"""', b'"""Edited. ', False),
        ("tasks/training/loop.py", b"import", b"EDITED = 1\nimport", True),
        ("models/attention/latent.py", b"import", b"EDITED = 1\nimport", False),
        ("sweeper/store/runs.py", b"import", b"EDITED = 1\nimport", False),
    ],
)
def test_only_code_that_a_run_can_import_counts_and_only_if_it_computes_another_thing(
    path, old, new, counts
):
    code = edited(path, old, new)
    assert code.files[path] != TODAY.files[path]
    named = named_by(config())
    states = [state_of_files(needed(one, named), named) for one in (TODAY, code)]
    assert differing(states) == ([path] if counts else [])


def test_a_plugin_counts_as_a_whole(installed):
    installed("of_mine", "class Mine: ...", {"headroom.attention": "wide = of_mine"})
    named = named_by(config({"model.attention.name": "wide"}))
    state = state_of_files(needed(TODAY, named), named)
    assert "of_mine/__init__.py" in state
    assert MULTI_HEAD in state or "models/block.py" in state


def facts_of(code):
    return {"code": code.revision, "code_parts": code.parts("lm1b")}


def trained(outputs, code, *seeds, parent=None):
    """Write finished runs of one point, trained with `code`. Return their plan."""
    runs = {}
    for seed in seeds:
        own = config({"seed": seed, "parent": parent})
        run = Record(f"lm1b-s{seed}", own, {"params_total": 11})
        measured = {"metrics": {"test/perplexity": 40.0 + seed}}
        finish(RunStore(outputs).freeze(run), measured, **facts_of(code))
        runs[run.id] = run
    pin(outputs, code, [config()])
    return Plan("demo", outputs, {}, {}, {}, runs=runs)


def compared(plan, code):
    """Return the runs of a plan that other code than `code` trained."""
    changes = Changes(plan.outputs, code)
    return of_other_code(plan, RunStore(plan.outputs), changes)


def test_the_plan_names_the_changed_file_and_the_way_to_train_again(tmp_path):
    plan = trained(tmp_path, TODAY, 0, 1, 2)
    same = compared(plan, TODAY)
    assert [*in_words(same, retrain=False)] == []
    found = compared(plan, SCALED)
    assert [*in_words(found, retrain=False)] == [
        f"Other code trained 3 of 3 finished runs ({MULTI_HEAD} changed). Their results "
        "are kept, but cannot decide a claim together with new runs. To train these runs again, "
        "add hydra.sweeper.retrain=changed"
    ]
    [line] = in_words(found, accepted=True)
    assert line.endswith("claims are judged on the mixture.")
    assert "Runs of different code cannot decide" in refusal(refuse_mixing, found)


def test_a_child_of_a_run_of_other_code_is_of_other_code(tmp_path):
    plan = trained(tmp_path, TODAY, 0)
    plan.runs.update(trained(tmp_path, SCALED, 1, parent="lm1b-s0").runs)
    assert compared(plan, SCALED).again == {"lm1b-s0", "lm1b-s1"}


def test_code_whose_copy_is_gone_is_unknown_also_for_children(tmp_path):
    plan = trained(tmp_path, TODAY, 0)
    plan.runs.update(trained(tmp_path, TODAY, 1, parent="lm1b-s0").runs)
    (tmp_path / "code").rename(tmp_path / "elsewhere")
    found = compared(plan, SCALED)
    [line] = in_words(found, retrain=False)
    assert line.startswith("outputs/code lacks the code that trained 2 finished runs")
    assert not found.again


def test_a_run_that_diverged_with_other_code_is_trained_again(tmp_path):
    plan = trained(tmp_path, TODAY, 0)
    run = RunStore(tmp_path).run("lm1b-s0")
    run.begin_anew()
    run.claim(facts_of(TODAY)).finish(Cause.NAN, "the loss is nan")
    assert compared(plan, SCALED).again == {"lm1b-s0"}


def test_a_child_of_weights_that_its_parent_no_longer_has_is_of_other_code(tmp_path):
    trained(tmp_path, TODAY, 0)
    plan = trained(tmp_path, TODAY, 1, parent="lm1b-s0")

    def publish(name, weights, **facts):
        run = RunStore(tmp_path).run(name)
        run.begin_anew()
        finish(run, {"weights_sha256": weights}, **facts, **facts_of(TODAY))

    publish("lm1b-s0", "first")
    publish("lm1b-s1", "own", parent_weights="first")
    assert not compared(plan, TODAY).again
    publish("lm1b-s0", "second")
    changed = {"lm1b-s1": ["the weights of lm1b-s0"]}
    assert compared(plan, TODAY).changed == changed

    run = RunStore(tmp_path).run("lm1b-s1")
    run.begin_anew()
    attempt = run.claim({**facts_of(TODAY), "parent_weights": "first"})
    (attempt.checkpoint_dir / "step-00000500.ckpt").touch()
    attempt.finish(Cause.INTERRUPTED, "stopped")
    assert compared(plan, TODAY).begun == changed


def test_a_run_that_begins_anew_keeps_its_old_result_beside_its_attempt(tmp_path):
    trained(tmp_path, TODAY, 0)
    run = RunStore(tmp_path).run("lm1b-s0")
    before = (run.path / "result.json").read_bytes()
    checkpoints = run.path / "attempts/0001/checkpoints"
    (checkpoints / "step-00000500.ckpt").touch()  # left by a kill after the result
    run.begin_anew()
    assert not run.checkpoints()
    assert run.status().state is not State.DONE
    assert (run.path / "attempts/0001/result.json").read_bytes() == before
    attempt = run.claim({})
    assert run.publish_result(attempt, {"metrics": {"test/perplexity": 7.0}})
    assert run.status().attempt == 2


@pytest.mark.parametrize("accept", [False, True])
def test_a_table_over_mixed_code_says_so_and_its_verdicts_are_undecided(
    tmp_path, monkeypatch, accept
):
    monkeypatch.setitem(vars(SCALED), "revision", "5ca1ed")
    made = few(seeds=4, claims=["small_beats_large"])
    for run, record in made.records.items():
        record.config.update(config(), seed=record.config["seed"])
        made.attempts[run] = facts_of(SCALED if run.endswith("s3") else TODAY)
    pin(tmp_path, TODAY, [config()])
    pin(tmp_path, SCALED, [config()])
    write_plan(made.write(tmp_path), made.plan | {"accept_mixed_code": accept})
    [table] = collect(tmp_path, ["fig1"])
    runs = f"12 runs of {TODAY.revision}, 4 runs of 5ca1ed"
    told = f"Mixed code: {runs}; they differ in {MULTI_HEAD}."
    assert table.mixed_code.startswith(told)
    assert table.mixed_code.endswith("accept_mixed_code=true.") == accept
    [verdict] = verdicts_on(table)
    assert told in verdict.sentence
    assert (verdict.verdict is Decision.UNDECIDED) == (not accept)
    [written] = write_tables(tmp_path, [table])
    assert read_table(exported(tmp_path, written)).code == table.code
