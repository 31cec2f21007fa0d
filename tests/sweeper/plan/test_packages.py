"""Tests of options that an installed package or a folder outside the checkout adds."""

import re

import pytest

from sweeper.hydra_section import composer
from tests.end_to_end.test_sweep import python
from tests.refusals import refusal

BACKEND = """
from dataclasses import dataclass

@dataclass
class Options:
    places: int = 3

def backend(context): ...
"""
LAUNCHER = "defaults: [/schema/launcher/shelf@_here_]\nplaces: 7\n"
EXPERIMENT = "# @package _global_\nexperiment: {title: mine}\nmodel: {heads: 11}\n"


def write(folder, files):
    """Write yaml files, given by their paths without the suffix, into a folder."""
    for name, text in files.items():
        path = folder / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("HERE", str(folder)))


def test_its_experiment_is_composed_and_the_options_of_its_backend_are_checked(
    installed,
):
    groups = {"headroom.backends": "shelf = mine", "headroom.conf": "mine = mine.conf"}
    conf = installed("mine", BACKEND, groups).parent / "conf"
    write(conf, {"hydra/launcher/shelf": LAUNCHER, "experiment/mine": EXPERIMENT})
    config = composer().compose(["experiment=mine"])
    assert (config.experiment.title, config.model.heads) == ("mine", 11)
    assert "mine" in composer().options("experiment")
    assert composer().hydra(["hydra/launcher=shelf"])["launcher"] == {"places": 7}
    words = ["hydra/launcher=shelf", "hydra.launcher.places=many"]
    assert "places" in refusal(composer().hydra, words)


MINE = """# @package _global_
experiment:
  title: of one's own
  metric: test/loss
  scales:
    tiny: {arms: {a: {grid: {model.heads: [3, 5]}}}}
"""
FILES = {
    "own/experiment/mine": MINE,
    "own/scale/tiny": "name: tiny\n",
    "own/model/wide": "defaults: [decoder, _self_]\nembedding_size: 30\nhead_size: 7\n",
    "own/primary": "defaults: [config, _self_]\nhydra: {searchpath: ['file://HERE/more']}\n",
    "more/experiment/theirs": MINE,
}


@pytest.fixture
def planned(tmp_path):
    """Return a function that runs sweep.py with a folder of yaml files and returns its output."""
    write(tmp_path, FILES)

    def planned(*arguments, code=0):
        typed = ["scale=tiny", "model=wide", "hydra.sweeper.dry_run=true"]
        typed.append(f"paths.outputs={tmp_path / 'outputs'}")
        own = ("--config-dir", tmp_path / "own")
        done = python("sweep.py", *own, *arguments, *typed, code=code)
        assert code == 0 or len(done.stderr.splitlines()) == 1
        return done.stderr if code else done.stdout

    return planned


def test_a_folder_of_ones_own_has_experiments_scales_and_models_and_names_further_folders(
    planned,
):
    said = planned("-m", "--config-name=primary", "experiment=mine,theirs")
    assert re.search(r"^mine-\w{8} \(tiny\): of one's own$", said, re.MULTILINE)
    assert "4 points, 2 runs, 2 of them shared by several points: 2 new." in said


def test_a_changed_copy_of_a_shipped_file_is_refused(planned, tmp_path):
    copy = tmp_path / "own" / "experiment" / "fig1.yaml"
    copy.write_text(MINE)
    said = planned("experiment=mine", code=2)
    assert f"{copy} would be ignored, since conf/ has a file with this name." in said


def test_a_folder_that_is_not_there_is_one_sentence(planned):
    folder = "/nonexistent/folder"
    assert folder in planned(f"--config-dir={folder}", "experiment=mine", code=2)


def test_a_launcher_that_cannot_be_imported_is_named_and_other_sweeps_go_on(
    installed, capsys
):
    installed("spoilt", "1 / 0", {"headroom.backends": "spoilt = spoilt"})
    assert composer().options("hydra/launcher")
    said = capsys.readouterr().err
    assert said.startswith(
        "warning: hydra/launcher=spoilt is not available: backend spoilt: the module"
    )
    assert "of the package spoilt cannot be imported (ZeroDivisionError" in said
