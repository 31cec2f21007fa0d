"""Fixtures for all tests of the sweeper."""

import os

import pytest

from sweeper.store.runs import RunStore


@pytest.fixture(autouse=True, scope="module")
def _no_fsync():
    """Turn fsync off, since no file must survive its test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture
def store(tmp_path):
    return RunStore(tmp_path)


def finish(run, result, **facts):
    """Write an attempt with these facts, which ends with this result."""
    attempt = run.claim(facts)
    run.publish_result(attempt, {"metrics": {}, **result})
    attempt.finish("done")


@pytest.fixture
def undrawn(monkeypatch):
    """Replace the drawing of figures by writing placeholder files."""
    monkeypatch.setattr("sweeper.results.figures.figure_of", lambda table: None)
    monkeypatch.setattr(
        "sweeper.results.layout.rendered", lambda figure, kind: b"drawn"
    )
