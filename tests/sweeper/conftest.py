"""Fixtures for all tests of the sweeper."""

import os

import pytest

from sweeper.store.runs import RunStore


@pytest.fixture(autouse=True, scope="module")
def _no_fsync():
    """Do not wait for the disk, since no file has to outlive its test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture
def store(tmp_path):
    return RunStore(tmp_path)


@pytest.fixture
def undrawn(monkeypatch):
    """Write files in place of figures, without drawing."""
    monkeypatch.setattr("sweeper.results.figures.figure_of", lambda table: None)
    monkeypatch.setattr(
        "sweeper.results.layout.rendered", lambda figure, kind: b"drawn"
    )
