"""A page that tests of the report share."""

import pytest

from tests.sweeper.results.report.reported import small_sweep


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Write the page of a small sweep."""
    return small_sweep(tmp_path_factory.mktemp("small"))
