"""A compiled run ends with the metrics of a run that is not compiled."""

import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.tasks.jobs import freeze, science


@pytest.mark.slow
def test_a_compiled_run_learns_what_a_plain_one_does(prepared, monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    same = {"model.dropout": 0.0}  # compiled code draws other dropout masks
    plain = freeze(prepared, same, name="plain")
    compiled = freeze(prepared, {**same, "trainer.compile": True}, name="compiled")
    for run in (plain, compiled):
        subprocess.run(
            [sys.executable, "-m", "tasks.train", run.path], cwd=ROOT, check=True
        )

    expected, found = science(plain), science(compiled)
    assert found["metrics"] == pytest.approx(expected["metrics"], rel=1e-4)
    assert found["weights_sha256"] != expected["weights_sha256"]
