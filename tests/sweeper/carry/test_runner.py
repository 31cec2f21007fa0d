"""What may be typed after run.py, and what is said of what may not."""

from __future__ import annotations

import pytest

from sweeper.carry import runner
from sweeper.carry.archive import MANIFEST
from sweeper.hydra_section import composer
from sweeper.packing import _options
from sweeper.run.failures import OnOom
from sweeper.store.files import publish_with_checksum


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An unpacked pack of no runs; how they would be trained is looked at instead."""
    options = _options(composer().hydra(["hydra.launcher.slots=5"]))
    publish_with_checksum(tmp_path / MANIFEST, {"format": 1, "runs": {}, "options": options})
    (tmp_path / "outputs").mkdir()
    monkeypatch.setattr(runner, "train", lambda *how: runner.asked.append(how) or 0)
    monkeypatch.setattr(runner, "asked", [], raising=False)
    return tmp_path


def test_options_are_those_of_the_pack_but_for_what_is_typed(folder):
    typed = ["hydra.sweeper.on_oom=halve", "hydra.sweeper.hang_after_s=null",
             "hydra.launcher.stagger_s=7"]  # fmt: skip
    assert runner.main(folder, typed) == 0
    [(_, _, options, launcher)] = runner.asked
    assert options.on_oom is OnOom.halve
    assert (options.hang_after_s, options.tries) == (None, 3)
    assert (launcher.slots, launcher.stagger_s, launcher.jobs_per_device) == (5, 7, 1)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("hydra.launcher.slots=0", ["hydra.launcher.slots=0", "at least 1"]),
        ("hydra.launcher.slots=many", ["hydra.launcher.slots=many", "int | null"]),
        ("hydra.sweeper.on_oom=often", ["hydra.sweeper.on_oom=often", "fail, halve"]),
        ("hydra.launcher.slot=2", ["hydra.launcher.slot=2", "hydra.launcher.slots"]),
        ("2", ["run.py=2", "hydra.launcher.slots"]),
    ],
)
def test_what_cannot_be_is_one_sentence_and_nothing_is_trained(folder, capsys, typed, words):
    assert runner.main(folder, [typed]) == 2
    told = capsys.readouterr().err
    assert all(word in told for word in words), told
    assert len(told.splitlines()) == 1
    assert not runner.asked
    assert not (folder / "results.tar").exists()
