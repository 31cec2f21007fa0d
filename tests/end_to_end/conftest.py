"""A real Slurm for the tests of this folder that ask for one: started once, for all of them."""

import pytest

from tests.end_to_end.slurm_cluster import cluster


@pytest.fixture(scope="package")
def slurm(tmp_path_factory):
    """Start the cluster."""
    pytest.importorskip("submitit", reason="real Slurm: submitit not installed")
    with cluster(tmp_path_factory.mktemp("slurm")):
        yield
