"""A job that fails records a cause and a message."""

import errno
import math
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from sweeper.store.attempts import Cause
from sweeper.store.runs import State
from tasks import checkpoint
from tasks.lm1b.task import LanguageModel
from tasks.module import TaskModule
from tasks.training import machine
from tasks.training.causes import cause_of
from tests.tasks.jobs import at_call, ended, last_word, log_of, run_job, science


@pytest.mark.parametrize(
    ("action", "cause"),
    [(lambda: torch.empty(2**58), "out_of_host_memory"), (lambda: 1 / 0, "crash")],
)
def test_the_cause_of_a_failure_is_told_apart(action, cause, outputs):
    fail = partial(at_call, TaskModule, "training_step", 3, action)
    run = ended(outputs, sabotage=fail, code=1)
    word = last_word(run)
    assert word["cause"] == cause
    assert word["message"]
    assert "Traceback" in log_of(run)
    assert run.status().state is State.FAILED
    assert cause in (outputs / "terminal.txt").read_text()


GPU, HOST = Cause.OUT_OF_GPU_MEMORY, Cause.OUT_OF_HOST_MEMORY
NCCL = "NCCL error, unhandled cuda error. Last error:\nCuda failure"
SAID = {
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`": GPU,
    "cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate`": GPU,
    f"{NCCL} 2 'out of memory'": GPU,
    f"{NCCL} 'out of memory'": GPU,
    f"{NCCL} 217 'peer access'": Cause.CRASH,
    "std::bad_alloc": HOST,
}


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        *((RuntimeError(words), cause) for words, cause in SAID.items()),
        (OSError(errno.ENOSPC, "full"), Cause.DISK_FULL),
        (OSError(errno.ENOMEM, "none left"), HOST),
        (MemoryError(), HOST),
        (torch.OutOfMemoryError(), GPU),
        (KeyError("MemoryErrorHandler"), Cause.CRASH),
    ],
)
def test_words_types_and_numbers_of_errors_tell_the_cause(error, cause):
    wrapper = RuntimeError("step 3")
    wrapper.__cause__ = error  # libraries often wrap the first error
    assert cause_of(wrapper, reading_data=False) is cause


@pytest.mark.parametrize("value", [math.nan, math.inf], ids=str)
def test_a_loss_that_is_no_number_stops_the_run_within_a_row(value, outputs):
    original = LanguageModel.totals

    def spoiled():
        losses = iter([1.0] * 6 + [value] * 99)

        def totals(*args):
            [total] = original(*args)
            return (total * next(losses),)

        LanguageModel.totals = totals

    run = ended(outputs, sabotage=spoiled, code=1)
    word = last_word(run)
    assert word["cause"] == "nan"
    assert f"the training loss is {value} at step 7 of training" in word["message"]
    assert [row["step"] for row in run.history()] == [5, 7, 10]
    assert run.result() is None


def test_a_full_disk_keeps_the_last_checkpoint_and_later_the_run_ends_the_same(
    outputs, undisturbed
):
    full = Mock(side_effect=OSError(errno.ENOSPC, "No space left on device"))
    fill = partial(at_call, checkpoint, "write_all", 3, full)
    run = ended(outputs, sabotage=fill, code=1)
    assert last_word(run)["cause"] == "disk_full"
    newest, _ = run.checkpoints()
    assert newest.name == "step-00000008.ckpt"
    checkpoint.verify(newest, run.id)
    assert run_job(run) == 0
    assert science(run) == undisturbed


@pytest.mark.parametrize(("accelerator", "shown"), [("gpu", ""), ("auto", "GPU-1a")])
def test_a_gpu_that_pytorch_cannot_use_is_one_sentence(
    outputs, monkeypatch, accelerator, shown
):
    if torch.cuda.is_available():
        pytest.skip("there is one")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    monkeypatch.setattr(machine, "DRIVER", Path(__file__))
    word = last_word(ended(outputs, {"trainer.accelerator": accelerator}, code=1))
    assert word["cause"] == "config"
    words = f"trainer.accelerator={accelerator}: expected a GPU that torch "
    assert word["message"].startswith(words)
