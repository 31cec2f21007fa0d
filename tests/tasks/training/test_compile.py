"""A compiled run ends with the metrics of a run that is not compiled."""

import pytest

from tests.tasks.jobs import science
from tests.tasks.training.test_gpu import trained


@pytest.mark.slow
def test_a_compiled_run_learns_what_a_plain_one_does(prepared, monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    plain, compiled = (
        # Dropout is off, because compiled code draws other masks.
        science(
            trained(prepared, str(own), {"model.dropout": 0.0, "trainer.compile": own})
        )
        for own in (False, True)
    )
    assert compiled["metrics"] == pytest.approx(plain["metrics"], rel=1e-4)
    assert compiled["weights_sha256"] != plain["weights_sha256"]
