"""Pages of sweeps in a browser, one for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sweeper.results.report.browser import WIDTHS, Browser, browser
from tests.sweeper.results.report.reported import (
    small_sweep,
)


@pytest.fixture(scope="session")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests."""
    with browser(tmp_path_factory.mktemp("profile")) as window:
        yield window


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a small sweep."""
    return small_sweep(tmp_path_factory.mktemp("small"))


@pytest.fixture
def page(window: Browser, small: Path) -> Iterator[Browser]:
    """A browser that shows the page of a small sweep, which must not have complained in the end."""
    window.size(WIDTHS[0])
    window.prefer("light")
    window.open(small)
    yield window
    assert window.console() == []
