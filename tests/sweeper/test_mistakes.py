"""Tests that a mistake on the command line or in yaml gives one sentence that says what to do.

The tests plan each command line as sweep.py does, but train nothing. They share one size server.
"""

import shutil
from contextlib import closing

import pytest

from sweep import FOLDER
from sweeper.__main__ import main
from sweeper.hydra_section import composer
from sweeper.plan.compose import CONF
from sweeper.plan.hydra_errors import explained, is_interrupt, is_user_error
from sweeper.plan.overrides import folder_override, read
from sweeper.plan.planner import Planner
from sweeper.plan.refused import refuse_arguments
from sweeper.size_server import SizeServer
from sweeper.stages.decide import check_claims
from sweeper.store import errors
from sweeper.store.plans import write_plan
from tests.end_to_end.test_sweep import python
from tests.refusals import refusal
from tests.sweeper.test_damaged_files import plan as plan_of

# Arguments of `python sweep.py`, and a part of the message.
SWEEPS = {
    "--dry-run": "--dry-run is not a flag of this program; --help lists the flags.",
    "hydra.sweeper.on_oom=halve": "was removed: write trainer.micro_batches=auto.",
    "dry_run=true": "did you mean hydra.sweeper.dry_run?",
    "model.n_heads=8": "did you mean model.heads?",
    "model/attention=gqa": "did you mean grouped_query?",
    "model.attention=gqa": "as in model/attention=grouped_query",
    "attention=latent": "did you mean model.attention?",
    "model.attention.name=collaborative": "write model/attention=collaborative.",
    "model.activation=swish": "set model.activation=silu.",
    "hydra/launcher=joblib": "expected one of local, ray, slurm",
    "experiment=fig1.yaml": "expected the name of a file in conf/experiment; put",
    f"seed={'9' * 5000}": "expected at most 300 digits in a number",
    f"model.heads={'[' * 99}{']' * 99}": "and at most 50 brackets",
    "hydra/sweeper=optuna": "Headroom works only with its own sweeper",
    "experiment=Fig1": "experiment=Fig1: expected a file in conf/experiment; did you mean fig1?",
    "model.heads = 4": "model.heads cannot be read as an override: Error parsing override",
    "fig1": "fig1 cannot be read as an override: Error parsing override",
    "head=8": "head is not a key of the config; did you mean model.heads or",
    "model.heads=interval(1,4)": "expected a list of values",
    "experiment=glob(nothing*)": "experiment=glob(nothing*): expected at least one value",
    "experiment.error=0.1": "can be set only if an experiment is chosen; add experiment=NAME",
    "experiment=table1 experiment.foo=3": "experiment.foo is not a key of the config; `--cfg all`",
    "experiment=fig1 ++experiment.arms.fixed.set.model.layers=2": "model={'layers': 2} cannot be",
    "experiment=[fig1,fig3]": "expected names of experiments; write for example experiment=f",
    "experiment=fig1 experiment.scales.gpu.seeds=[7]": "the chosen scale, demo; add scale=gpu, or",
    "experiment=fig1 scale=cpu experiment.tune.grow=-1": "grow=-1: input should be",
    "experiment=fig1 scale=paper experiment.tuned=true": "tuned=true: expected no option of "
    "tuning, since fig1 is not tuned; leave this option out. Tuning needs experiment.tuned=true, a",
    "experiment=fig9": "did you mean fig4 or fig3 or fig2?",
    "experiment=scaling": "experiment=scaling was removed: choose another experiment; fig3",
    "scale=huge experiment=fig1": "scale=huge: expected one of cpu, demo",
    "scale=cpu experiment=head_sizes": "scale=cpu: expected a scale that experiment=head_sizes",
    "data.root=/tmp": "expected null, since data.source=sample ignores this key; leave it out, or",
    "data.hub.path=a/b": "data.hub.path=a/b: expected null, since data.source=sample ignores",
    "data=local data.root=HERE/conf data.directions=0,12": "data.directions=0: expected null",
    "data=local": "data.root",
    "data=local data.root=/nonexistent": "data.root=/nonexistent: expected a folder of text files",
    "task=lm1b,mnli": "metric=test/perplexity: expected a metric of task mnli",
    "metric=test/perplexty": "metric=test/perplexty: expected a metric of task lm1b",
    "name=../mine": "name=../mine: expected at most 56 letters",
    "name=mine experiment=fig1,fig3": "name=mine cannot name the results of 2 experiments",
    "model.heads=8 model.heads=4": "model.heads is set twice",
    "+data=local": "Multiple values for data.",
    "task=null": "Config group override must be a string or a list. Got NoneType.",
    "model.heads=0": "model.heads=0: expected a whole number from 1 to 65536",
    "experiment=fig3 experiment.seeds=0,1": "write 'experiment.seeds=[0,1]'; to sweep seeds, ",
    "experiment=fig3 ++experiment.arms.fixd.label=x": "=fixd: expected an arm of fig3 (standard,",
    "experiment=fig3 ++experiment.scales.demo.arms.fixd.label=x": "=fixd: expected an arm of fig3",
    "+experiment.arms.x={where:model.heads==8}": "==8} cannot be read as an override",
    "data=local data.root=/müller": "data.root=/müller cannot be read as an override: ",
    "seed=-1": "seed=-1: expected whole numbers from 0 to 4294967295",
    "experiment=fig3 +experiment.seeds=[]": "experiment.seeds=[]: list should have at least 1",
    "experiment=fig1 seed=0 +experiment.seeds=[5,6]": "seed and experiment.seeds are both set",
    "experiment=fig1 experiment.tune.seeds=[-1]": "experiment.tune.seeds.0=-1: input should be",
    "experiment=fig1 scale=cpu experiment.tune.by=validation/foo": "by=validation/foo: expected",
    "logger.project=a/b": "logger.project=a/b: expected a name of at most 128 characters",
    "experiment=fig1 metric=test/loss": "has its own; write experiment.metric=NAME instead.",
    "experiment=fig1 experiment.tuned=true optimizer.learning_rate=0.1": "experiment.tuned=true: "
    "expected no option of tuning, since fig1 is not tuned",
    "metric=[a]": "metric=[a]: expected the name of a metric",
    "parent=nope": "parent=nope: expected the id of a finished run in /",
    "model={head_size:8}": "model={head_size:8}: expected one value; set its keys one by one",
    "experiment=fig1 model.heads=8": "model.heads cannot be set, because experiment=fig1 computes",
    "experiment=equal_flops model.head_size=16": "that set this key: standard, matched); write "
    "'experiment.arms.ARM.set={model.head_size: VALUE}' for one arm, or sweep",
    "experiment=fig1 model/attention=decoupled": "(arms that set this key: collaborative); write",
    "experiment=theorem1 task.mask=causal,bidirectional": "(arms that set this key: bidirectional",
    "experiment=fig1 model.layers=1,2": "one value, because claims of fig1 could compare arms with",
    "experiment=width data.directions=0,9": "start one sweep for each value, or add 'experiment.cl",
    "experiment=three model.heads=2,4": "three values of model.heads, not 2; add values",
    "experiment=three experiment.claims=[larger]": "experiment=three: experiment.claims=larger",
    "model.heads=range(1,5000) model.layers=range(1,5000)": "at least 12,996 points, more",
    "seed=range(0,5,0)": "seed=range(0,5,0): expected a list of values or a finite",
    "~seed": "~seed: keys of the config cannot be deleted",
    "paths.outputs=null": "paths.outputs=null: expected a folder",
    "data=local data.root='~nosuchuser/x'": "data.root=~nosuchuser/x: expected a folder",
    "model.heads=1e999": "model.heads=inf: expected a finite number",
    "trainer.threads=1,2": "trainer.threads=1,2: expected one value; start one",
    "experiment=fig3 ++experiment.arms.fixed.grid={trainer.threads:[1,2]}": "keys that can change",
    "experiment=fig1 experiment.tune.seeds=[7]": "is not tuned; leave this option out. Tuning",
    "experiment=fig1 scale=cpu experiment.tune.seeds=[7,2]": "none of the experiment's own",
    "experiment=fig1 scale=cpu experiment.tune.transfer.fixed=width": "tune.transfer was removed",
    "experiment=fig1 scale=cpu experiment.tune.per=arm": "tune.per was removed: leave it out",
    "experiment=fig1 scale=cpu experiment.tune.by=test/loss": "match pattern '^validation/'",
    "experiment=fig1 scale=cpu experiment.tune.grid={optimizer.learning_rate:[0.1]}": "least two",
    "experiment=three ++experiment.margin={test/loss:{size:0,reason:why}}": "a number above 0",
    "experiment=three ++experiment.margin={test/loss:{size:1,reason:'\u2003'}}": "match pattern",
    "experiment=three ++experiment.margin={test/loss:{size:1}}": "test/loss.reason is missing",
}

# Experiments in conf/experiment, without their first line. ARM has one arm, a.
BODY = "experiment:\n  title: t\n  metric: test/loss\n"
HEADS = "grid: {model.heads: [2, 4]}"
ARM = f"{BODY}  arms: {{a: {{{HEADS}}}}}\n"
CACHE = "to: 192, count: cache_bytes_per_token, tolerance: 0"
CLAIMED = "claims: [fixed_keeps_improving]"
THREE = f"{BODY}  arms: {{fixed: {{grid: {{model.heads: [2, 4, 8]}}}}}}\n  {CLAIMED}\n"
ARMS = {  # what stands in the braces of `arms`
    "seeded": (f"a: {{set: {{seed: 5}}, {HEADS}}}", "arms.a cannot set or sweep seed"),
    "heirs": (
        f"a: {{{HEADS}, seeds: [0, 1]}}",
        "experiment.arms.a.seeds was removed: leave it out; all arms of an experiment",
    ),
    "switched": (
        f"on: {{{HEADS}}}",
        "YAML reads on, off, yes and no as true or false",
    ),
    "huge": (
        f"a: {{where: model.name * 10000000000 == 1, {HEADS}}}",
        "arithmetic takes numbers only",
    ),
    "where": (
        f"a: {{where: model.heads ===, {HEADS}}}",
        "a condition compares config keys",
    ),
    "pointless": (f"a: {{where: model.heads > 9, {HEADS}}}", "no points"),
    "limited": (
        f"a: {{set: {{data: local, data.root: ., data.sentences: 500}}, {HEADS}}}",
        "data.sentences=500: expected null, since data.source=local ignores this key",
    ),
    "solved": (
        "a: {match: {solve: model.hads, to: 5, tolerance: 0.1}}",
        "cannot solve for model.hads: model.hads is not a key of the config; did you mean",
    ),
    "unchanged": (
        f"a: {{match: {{solve: model.feedforward_size, {CACHE}}}}}",
        "does not change the size (it is 128 for 1",
    ),
    "uncached": (
        f"a: {{set: {{task: pretraining}}, match: {{solve: model.heads, {CACHE}}}}}",
        "match.count=cache_bytes_per_token: expected a count that the model encoder has",
    ),
    "two": (
        f"a: {{set: {{model.embedding_size: 16}}, {HEADS}}}, "
        "b: {set: {model.embedding_size: 16, model.head_size: 4}, "
        "match: {to: a, solve: model.heads, tolerance: 0.2}}",
        "b.match.to=a: expected one target for each point, but heads=4 matches two (a heads=2 and",
    ),
    "kin": (
        "a: {grid: {trainer.steps: [300, 500]}}, "
        "b: {parent: a, grid: {trainer.steps: [300, 500]}}",
        "arm b cannot sweep trainer.steps, because its parent a sweeps it",
    ),
    "close": (
        "a: {match: {to: 150000, solve: model.heads, tolerance: -1}}",
        "tolerance=-1: input should be",
    ),
    "zero": (
        "a: {match: {to: 0, solve: model.heads, tolerance: 0.1}}",
        "match.to=0: expected a number from 1 to 1e18",
    ),
    "besides": (
        "a: {match: {to: 9, where: model.heads > 2, solve: model.heads, tolerance: 0.1}}",
        "a.match.to=9: expected the name of an arm, since `where` and",
    ),
    "stepless": (
        "a: {match: {to: 9, solve: model.heads, tolerance: 1, multiple_of: model.rotary_size}}",
        "match.multiple_of=model.rotary_size: expected a whole number of at least 1",
    ),
    "tight": (
        "a: {set: {model.head_size: 16}, "
        "match: {to: 150000, solve: model.heads, tolerance: 1.0e-9}}",
        "The nearest is model.heads=",
    ),
}
ADDED = {  # lines to add to ARM
    "twice": ("title: again", "cannot be read as yaml: found duplicate key title"),
    "armed": (CLAIMED, "has no arm fixed"),
    "across": ("x: model.hads", "experiment.x=model.hads: expected a key"),
    "near": (
        "margin: {test/los: {size: 1, reason: r}}",
        "experiment.margin=test/los: expected a metric of the experiment (test/loss)",
    ),
    "swept": (f"tune: {{{HEADS}}}", "no arm sets or sweeps, but arm a does"),
    "tuned": (
        "tune: {grid: {model.dropout: [0.1, 0.2]}}\n"
        "  scales: {demo: {arms: {a: {set: {model.dropout: 0}}}}}",
        "grid=model.dropout: expected a key that no arm sets or sweeps, but arm a does; remove it",
    ),
    "other": ("scales: {demo: {}, gpu: {clams: []}}", "scales.gpu.clams is not a key"),
    "printed": ("paper: {8: [1, 2]}", "experiment.paper.8=[1, 2]: input should be"),
    "named": ("name: mine", "experiment.name cannot be set; leave it out"),
}
FILES = {
    "broken": (
        "experiment: {title: [a\n",
        "broken.yaml, line 3 cannot be read as yaml",
    ),
    "empty": ("", "describes no experiment"),
    "armless": (BODY, "experiment.arms is missing"),
    "stray": (
        f"modle: {{heads: 3}}\n{ARM}",
        "modle={heads:3}: expected one of the keys",
    ),
    "measured": (
        f"experiment: {{title: t, metric: test/los, arms: {{a: {{{HEADS}}}}}}}",
        "experiment=measured: experiment.metric=test/los: expected",
    ),
    "once": (
        f"{BODY}  finetune: {{squad: [test/f1, test/loss], mnli: [test/loss]}}\n"
        "  arms: {a: {set: {task: pretraining}}}\n",
        "experiment.finetune=test/loss: expected a metric that no other task lists",
    ),
}
FILES |= {
    name: (f"{BODY}  arms: {{{arms}}}\n", words) for name, (arms, words) in ARMS.items()
}
FILES |= {name: (f"{ARM}  {line}\n", words) for name, (line, words) in ADDED.items()}

# Arguments of `python -m sweeper`, and a part of the message.
COMMANDS = {
    "collect --output HERE/x": "unrecognized arguments: --output",
    "pack fig1": "pack was removed: plan with hydra.sweeper.plan_only=true and copy the outputs",
    "merge results.zip": "merge was removed: copy the outputs folder back",
    "decide fig1 --effect=1%": "--effect was removed: leave it out, since costs assume",
    "bundle fig1 -o fig1.zip": "bundle was removed: zip the outputs folder; python -m sweeper",
    "judge fig1.zip": "There is no file fig1.zip; correct the path.",
    "archive fig1": "archive was removed: zip the outputs folder",
    "train --outputs HERE/none": "HERE/none: expected a folder with planned runs; plan runs with",
    "train --slots 0": "slots=0: expected a number of at least 1",
    "train HERE": "unrecognized arguments: HERE",
    "statsu": "invalid choice: 'statsu'",
    "status fig3 --outputs HERE/none": "start with a sweep: python sweep.py -m experiment=fig3",
    "status fig3": "or plan it: python sweep.py -m experiment=fig3",
    "compare ² 1": "experiment=²: expected a planned experiment (first)",
    "compare first": "the following arguments are required: SWEEP",
    "forget fig3 --yes": "There is no experiment or run named fig3",
    "forget fig3 --yes --outputs HERE/none": "start with a sweep: python sweep.py -m",
    "forget first": "no terminal to answer in. Add --yes",
    "collect -o HERE/pictures/picture": "HERE/pictures/picture: File exists; remove what",
    "report -o HERE/pictures/picture": "remove what is there, or name another folder with -o",
}


@pytest.fixture(scope="module")
def here(tmp_path_factory):
    """A folder with a copy of conf/, experiments with mistakes, and files that are not text."""
    folder = tmp_path_factory.mktemp("mistakes")
    shutil.copytree(CONF, folder / "conf")
    texts = {"three": THREE, **{name: text for name, (text, _) in FILES.items()}}
    texts = {name: f"# @package _global_\n{text}" for name, text in texts.items()}
    for name, text in (texts | HEADLESS).items():
        (folder / "conf" / "experiment" / f"{name}.yaml").write_text(text)
    (folder / "pictures").mkdir()
    (folder / "pictures" / "picture").write_bytes(bytes(range(256)) * 9)
    write_plan(folder / "outputs", plan_of("first", "a"))
    return folder


@pytest.fixture(scope="module")
def told(here):
    """Return a function that plans a command line and returns the error message."""
    known = composer(here / "conf")
    with closing(SizeServer()) as process:

        def told(typed):
            arguments = typed.replace("HERE", str(here)).split(" ")
            planner = Planner(known, process, max_runs=113)
            try:
                refuse_arguments(arguments)
                outputs = [] if "paths" in typed else [f"paths.outputs={here / 'new'}"]
                check_claims(planner.plan([*arguments, *outputs]))
            except Exception as problem:  # sweep.py catches all exceptions, too
                if not is_user_error(problem):
                    raise
                return str(explained(problem))
            raise AssertionError("it can be planned")

        yield told
    assert not (here / "new" / "plans").exists()


def is_a_sentence(text):
    ends = text.endswith((".", "?")) and not text.endswith("?.")
    return "\n" not in text and len(text) < 1000 and ends


# Files in conf/experiment that Hydra does not read as experiments.
BEGIN = "Its first line must be '# @package _global_' (without a byte order mark)"
DEFAULTED = "Could not override 'task@experiment.task'. Did you mean to override task?"
DEFAULTS = f"defaults: [override /task: lm1b]\n{ARM}"
HEADLESS = {
    "headless": ARM,
    "headless_defaults": DEFAULTS,
    "commented": f"# My experiment.\n# @package _global_\n{DEFAULTS}",
    "marked": f"\ufeff# @package _global_\n{ARM}",
    "dashed": f"---\n# @package _global_\n{ARM}",
}

MISTAKES = SWEEPS | {f"experiment={name}": words for name, (_, words) in FILES.items()}
MISTAKES |= {f"experiment={name}": BEGIN for name in HEADLESS}
MISTAKES |= {
    f"experiment={name}": DEFAULTED for name in ("headless_defaults", "commented")
}


@pytest.mark.parametrize("typed", MISTAKES)
def test_what_is_typed_or_written_wrongly_is_one_sentence_before_anything_is_trained(
    typed, told
):
    said = told(typed)
    assert MISTAKES[typed] in said
    assert is_a_sentence(said), said


def test_a_signal_is_known_even_if_another_error_replaces_it():
    replaced = AttributeError("of OmegaConf")
    replaced.__context__ = KeyboardInterrupt()
    assert is_interrupt(replaced)
    assert not is_interrupt(AttributeError("of OmegaConf"))


@pytest.mark.parametrize("typed", COMMANDS)
def test_a_command_that_cannot_do_it_says_so_in_one_sentence(typed, here, capsys):
    arguments = typed.replace("HERE", str(here)).split(" ")
    outputs = [] if "--outputs" in arguments else ["--outputs", str(here / "outputs")]
    try:
        code = main([*arguments, *outputs])
    except SystemExit as ended:
        code = ended.code
    [said] = capsys.readouterr().err.splitlines()
    assert code == 2
    assert COMMANDS[typed].replace("HERE", str(here)) in said
    assert is_a_sentence(said), said


def test_the_installed_command_lists_how_to_train(capsys, monkeypatch):
    monkeypatch.setattr(errors, "INSTALLED", True)
    with pytest.raises(SystemExit):
        main(["--help"], program="headroom")
    said = capsys.readouterr().out
    assert "headroom sweep -m experiment=fig1" in said
    assert "\n    sweep " in said


LARGE = {
    "aliases of aliases": (
        "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
        + "".join(
            f"{to}: &{to} [{', '.join([f'*{of}'] * 10)}]\n"
            for of, to in zip("abcde", "bcdef", strict=True)
        ),
        "more than 100,000 values with its aliases expanded",
    ),
    "an alias of itself": ("a: &a {b: *a}", "has an alias *a inside its own anchor"),
    "nesting": (f"a: {'[' * 3000}{']' * 3000}", "is nested more than 50 levels deep"),
    "digits": (f"a: {'9' * 5000}", "has a number of 5,000 digits, more than 300"),
    "hexadecimal": (
        f"a: 0x{'f' * 4998}",
        "has a number of 5,000 digits, more than 300",
    ),
    "base 60": (
        f"a: {':'.join(['59'] * 1667)}",
        "has a number of 5,000 digits, more than 300",
    ),
}


@pytest.mark.parametrize("text", LARGE)
def test_yaml_that_would_explode_is_refused_before_hydra_builds_it(tmp_path, text):
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "large.yaml").write_text(LARGE[text][0])
    said = refusal(composer, config_dir=str(tmp_path))
    assert LARGE[text][1] in said
    assert is_a_sentence(said)


@pytest.mark.parametrize(
    "folder", ["~/my texts", "/home/Ünal", "a=b", "lab (2)", "it's", "x{1}", "[old]"]
)
def test_a_folder_needs_no_quotes_on_the_command_line(folder):
    quoted = FOLDER.fullmatch(f"data.root={folder}")
    typed = folder_override(*quoted.groups())
    found = read(["data=local", typed], composer(), max_points=1)
    assert found.values["data.root"] == folder


@pytest.mark.parametrize(
    "typed", ["/a-b_c.1 d", "null", "a(,b", "'(a)'", "${(a)}", "\\("]
)
def test_other_values_of_a_folder_stay_as_they_are_typed(typed):
    assert FOLDER.fullmatch(f"data.root={typed}") is None


@pytest.mark.parametrize("typed", ["sweep.py model.heads=8", "-m sweeper status"])
def test_without_the_environment_a_command_says_how_to_get_it(typed):
    done = python("-S", *typed.split(), code=2)  # -S hides site-packages
    assert is_a_sentence(done.stderr.removesuffix("\n"))
    assert "run `make install`" in done.stderr
