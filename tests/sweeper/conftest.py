"""Tests of the sweeper write many small records, none of which has to survive a power cut."""

import os

import pytest


@pytest.fixture(autouse=True, scope="module")
def _no_fsync():
    """Nothing here outlives the test, so nothing waits for the disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield
