"""A real Slurm for the tests of this folder that ask for one: started once, for all of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.end_to_end.slurm_cluster import Cluster, cluster


@pytest.fixture(scope="package")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The cluster."""
    pytest.importorskip("submitit", reason="real Slurm: submitit not installed")
    with cluster(tmp_path_factory.mktemp("slurm")) as started:
        yield started
