"""What an installed package adds is chosen by its name, as what is in conf/ is."""

from __future__ import annotations

import pytest

from sweeper.hydra_section import composer
from sweeper.store.errors import UserError

BACKEND = """
from dataclasses import dataclass

@dataclass
class Options:
    places: int = 3

def backend(context): ...
"""
LAUNCHER = "defaults: [/schema/launcher/shelf@_here_]\nplaces: 7\n"
EXPERIMENT = "# @package _global_\nexperiment: {title: mine}\nmodel: {heads: 11}\n"


@pytest.fixture
def _package(installed):
    groups = {"headroom.backends": "shelf = mine", "headroom.conf": "mine = mine.conf"}
    conf = installed("mine", BACKEND, groups).parent / "conf"
    for place, text in (("hydra/launcher/shelf", LAUNCHER), ("experiment/mine", EXPERIMENT)):
        path = conf / f"{place}.yaml"
        path.parent.mkdir(parents=True)
        path.write_text(text)


@pytest.mark.usefixtures("_package")
def test_its_experiment_is_composed():
    config = composer().compose(["experiment=mine"])
    assert (config.experiment.title, config.model.heads) == ("mine", 11)
    assert "mine" in composer().options("experiment")


@pytest.mark.usefixtures("_package")
def test_its_backend_has_options_that_are_checked():
    launcher = composer().hydra(["hydra/launcher=shelf"])["launcher"]
    assert launcher == {"places": 7}
    with pytest.raises(UserError, match="places"):
        composer().hydra(["hydra/launcher=shelf", "hydra.launcher.places=many"])


def test_without_the_package_its_names_are_unknown():
    with pytest.raises(UserError, match=r"experiment=mine: expected one of .*fig1"):
        composer().compose(["experiment=mine"])
