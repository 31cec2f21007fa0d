"""Tests of the sweeper write many small records, none of which has to survive a power cut."""

import os

import pytest

from sweeper.store.runs import RunStore


@pytest.fixture(autouse=True, scope="module")
def _no_fsync():
    """Nothing here outlives the test, so nothing waits for the disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture
def store(tmp_path):
    return RunStore(tmp_path)


@pytest.fixture
def undrawn(monkeypatch):
    """Figures are files, but nothing is drawn."""
    monkeypatch.setattr("sweeper.results.figures.figure_of", lambda table: None)
    monkeypatch.setattr(
        "sweeper.results.layout.rendered", lambda figure, kind: b"drawn"
    )
