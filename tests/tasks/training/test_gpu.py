"""The same contract where there is a GPU: the same record, the same bits."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tasks.jobs import freeze, run_job, science

ROOT = Path(__file__).resolve().parents[3]


def train(run):
    """In a process started afresh: CUDA may be in use here, and does not survive a fork."""
    command = [sys.executable, "-m", "tasks.train", str(run.path)]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_the_same_record_gives_the_same_bits_there_too(precision, outputs):
    # Of this size fused attention is differentiated by blocks, in any order if nobody forbids it.
    shape = {"model.head_size": 32, "task.sequence_length": 256, "task.batch_tokens": 3 * 256}
    changes = {"trainer.accelerator": "gpu", "trainer.precision": precision, **shape}
    runs = [freeze(outputs, changes, name=name) for name in ("one", "other")]
    assert [train(run) for run in runs] == [0, 0]
    assert science(runs[0]) == science(runs[1])


@pytest.mark.gpu
def test_it_learns_what_a_cpu_learns(outputs):
    on_cpu = freeze(outputs, {"model.dropout": 0.0}, name="cpu")
    on_gpu = freeze(outputs, {"model.dropout": 0.0, "trainer.accelerator": "gpu"}, name="gpu")
    assert run_job(on_cpu) == 0
    assert train(on_gpu) == 0
    loss = science(on_cpu)["metrics"]["test/loss"]
    assert science(on_gpu)["metrics"]["test/loss"] == pytest.approx(loss, rel=0.01)
    result = on_gpu.result()
    assert "NVIDIA" in result["device"]
