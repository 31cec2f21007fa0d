"""Command lines that nobody means: each ends in one sentence that names its key."""

import pytest

from sweeper.hydra_section import composer
from sweeper.plan.planner import Planner
from sweeper.store.errors import UserError

ODD = {
    "seed=range(0,5,0)": "seed=range(0,5,0): expected a range that ends",
    "model.heads=range(1,1e400)": "model.heads=range(1,1e400): expected a range that ends",
    "~seed": "~seed: no key can be left out",
    "~model": "~model: no key",
    "~paths": "~paths: no key",
    "~metric": "~metric: no key",
    "paths.outputs=null": "paths.outputs=None: expected a folder",
    "paths.outputs=3": "paths.outputs=3: expected a folder",
    "paths.outputs=[a]": "paths.outputs=['a']: expected a folder",
    "paths.outputs=''": "paths.outputs=: expected a folder",
    "paths.outputs='~nosuchuser/x'": "paths.outputs=~nosuchuser/x: expected a folder",
    "paths=null": "paths.outputs=None: expected a folder",
    "data=local data.root='~nosuchuser/x'": "data.root=~nosuchuser/x: expected a folder",
    "task=null": "must be a string",
    "experiment=3": "must be a string",
    "model.heads=1e999": "model.heads=inf: expected a number that is finite",
    "trainer.steps=nan": "trainer.steps=nan: expected a number that is finite",
    "model.heads=3,1e999": "model.heads.1=inf: expected a number that is finite",
    "seed=null": "seed=None: expected whole numbers",
    "=1": "has no key",
    "experiment=fig1 experiment.scales=3": "experiment.scales=3: expected a section",
}


@pytest.fixture(scope="module")
def here():
    return composer()


@pytest.mark.parametrize("typed", ODD)
def test_it_is_one_sentence(typed, here, process):
    with pytest.raises(UserError) as told:
        Planner(here, process, max_runs=97).plan(typed.split(" "))
    assert ODD[typed] in str(told.value)
    assert "\n" not in str(told.value)
