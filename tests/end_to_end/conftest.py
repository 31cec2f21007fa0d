"""A fixture that starts a real Slurm once for all tests in this folder that need it."""

import pytest

from tests.end_to_end.slurm_cluster import cluster


@pytest.fixture(scope="package")
def slurm(tmp_path_factory):
    """Start the cluster."""
    pytest.importorskip("submitit", reason="real Slurm: submitit not installed")
    with cluster(tmp_path_factory.mktemp("slurm")):
        yield
