"""Tests that configs with code to call, secrets or unknown options are refused."""

import pytest

from sweeper.hydra_section import composer
from sweeper.plan.overrides import read
from sweeper.plan.refused import refuse_arguments
from sweeper.store.errors import UserError
from tasks.parse import parse
from tests.policies import shipped
from tests.refusals import refusal
from tests.tasks.jobs import config

FORMS = {
    "key": "+model._target_=os.system",
    "known key": "model.name={_target_: os.system}",
    "nested": "+model.attention.x={y: {_target_: os.system, _args_: [canary]}}",
    "list": "+data.x=[1, {_target_: os.system}]",
    "top": "+x={_target_: os.system}",
    "callback": "+hydra.callbacks.x._target_=os.system",
    "sweeper": "hydra.sweeper._target_=os.system",
    "launcher": "hydra.launcher._target_=os.system",
    "logging": "+hydra.job_logging.handlers.x.class=os.system",
    "sweep": "+model.x={_target_: os.system},2",
}


def given(*arguments):
    """Read a command line as `sweep.py` does."""
    refuse_arguments([*arguments])
    shipped().base(o for o in arguments if "," not in o)
    read(arguments, shipped(), max_points=9)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_no_target_gets_past_the_command_line(form):
    with pytest.raises(UserError, match=r"_target_|code"):
        given(form)


@pytest.mark.parametrize(
    "key", ["callbacks.x", "job_logging.handlers.x", "hydra_logging.root"]
)
def test_hydra_itself_lets_nothing_be_added_to_what_it_would_call(key):
    form = f"++hydra.{key}={{_target_: os.system}}"
    assert "code" in refusal(shipped().compose, [form])


PLACES = (
    "model: {x: {_target_: os.system}}",
    "hydra: {callbacks: {x: {_target_: os.system}}}",
    "hydra: {job_logging: {handlers: {x: {(): os.system}}}}",
    "hydra: {launcher: {_target_: os.system}}",
    "hydra: {sweeper: {_target_: hydra_plugins.other.Sweeper}}",
    "hydra: {sweeper: {x: {_target_: os.system}}}",
    "experiment: {arms: {a: {set: {model: {_target_: os.system}}}}}",
)


@pytest.mark.parametrize("place", PLACES)
def test_no_target_gets_in_by_a_yaml_file(with_experiment, place):
    conf = with_experiment("evil", f"# @package _global_\n{place}\n")
    with pytest.raises(UserError, match=r"_target_|code|not a key"):
        composer(conf).base(["experiment=evil"])


@pytest.mark.parametrize("key", ["model", "task", "data", "trainer", "model.attention"])
def test_no_target_gets_in_by_an_edited_record(key):
    evil = config({f"{key}._target_": "os.system"})
    assert "_target_" in refusal(parse, evil)


SECRETS = (
    "logger.api_key logger.WANDB_API_KEY x.secret hf_token data.hub.token password"
)


@pytest.mark.parametrize("key", SECRETS.split())
def test_secrets_are_refused_and_not_repeated(key):
    told = refusal(given, f"+{key}=CANARY")
    assert "environment" in told
    assert "CANARY" not in told


@pytest.mark.parametrize(
    "text", ["'${oc.env:HOME}'", "'${oc.decode:x}'", "'a ${oc.env:X,y} b'"]
)
def test_the_environment_is_not_read_into_a_config(text):
    for typed in (text, f"{text},b"):
        assert "interpolation" in refusal(given, f"logger.project={typed}")


FLAGS = "--run -r --config-d --experimental-rerun=x --experimental-r --version".split()


@pytest.mark.parametrize("flag", FLAGS)
def test_flags_that_read_a_pickle_or_run_a_job_are_refused(flag):
    assert "not a flag" in refusal(refuse_arguments, ["-m", flag, "seed=1"])


def test_the_usual_flags_and_the_projects_own_keys_pass():
    refuse_arguments(
        ["-m", "--cfg", "job", "--help", "model.heads=8", "-cd", "hydra/conf"]
    )
    given("task.batch_tokens=1024", "task.tokenizer_lines=10")
