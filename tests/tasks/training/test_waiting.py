"""In a training step the host waits for nothing that the device has computed, in any task.

The device is "meta" here, which computes nothing: whoever asks it for a value gets an error. What
would wait for a copy to arrive is told by the operations that a step is made of.
"""

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from models import cross_entropy
from tasks.training import job as fit
from tasks.training import loop
from tasks.training.loop import TrainingModule, clip
from tests.tasks.jobs import at_call, freeze, last_word, run_job
from tests.tasks.small import SMALL, opened
from tests.tasks.training.test_micro_batches import SEPARABLE

META = torch.device("meta")
COPIES = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
VALUES = (torch.tensor, torch.as_tensor, Tensor.new_tensor)  # of numbers, which are copied too
STEPS = [(name, 1) for name in SMALL] + [(name, 2) for name in SEPARABLE]  # task, parts of a batch


class NoCopies(TorchDispatchMode):
    """Refuses copies between devices: of memory that is not pinned they make the host wait."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        devices = {one.device for one in (*args, found) if isinstance(one, Tensor)}
        assert func not in COPIES or len(devices) < 2, f"{func} from one device to another"
        return found


class NoValues(TorchFunctionMode):
    """Refuses the same where the dispatcher does not see it: numbers made a tensor elsewhere."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        found = func(*args, **(kwargs or {}))
        assert func not in VALUES or found.device != META, f"{func} from the host"
        return found


def step(task, parts=1):
    """All of a training step but the batch, in the order in which the loop does it."""
    batch = {key: tensor.to(META) for key, tensor in task.data.batch(1).items()}
    with META:
        model = task.build()
    module = TrainingModule(task, model, parts).to(META)
    if task.config.trainer.precision == "64-true":
        module.double()
    optimizer = module.configure_optimizers()
    with NoCopies(), NoValues():
        optimizer.zero_grad()
        module.training_step(batch, 1).backward()
        clip(module, task.config.optimizer.gradient_clip)
        optimizer.step()


@pytest.mark.parametrize("logits", [cross_entropy._LOGITS_GPU, 1009], ids=["at once", "in chunks"])
@pytest.mark.parametrize(("name", "parts"), STEPS)
def test_a_step_waits_for_nothing(name, parts, logits, shared, monkeypatch):
    monkeypatch.setattr(cross_entropy, "_LOGITS_GPU", logits)
    step(opened(shared, SMALL[name]), parts)


WAITS = {
    "a number": lambda x: x.sum().item(),
    "a list": lambda x: x.tolist(),
    "a branch": lambda x: x.sum() if x.sum() > 0 else -x.sum(),
    "a copy to the host": lambda x: x.cpu(),
    "where it is not zero": lambda x: x.nonzero(),
    "what a mask leaves": lambda x: x[x > 0],
    "what differs": lambda x: x.unique(),
    "a number from the host": lambda x: torch.as_tensor(7, device=x.device),
    "numbers from the host": lambda x: torch.tensor([3, 5], device=x.device),
}


@pytest.mark.parametrize("name", WAITS)
def test_what_would_wait_is_told(name, shared, monkeypatch):
    task = opened(shared, SMALL["nearest_neighbour"])
    loss = task.loss

    def waiting(model, batch):
        WAITS[name](batch["points"])
        return loss(model, batch)

    monkeypatch.setattr(task, "loss", waiting)
    with pytest.raises((RuntimeError, NotImplementedError, AssertionError)):
        step(task)


READS = ("_local_scalar_dense", "nonzero", "masked_select", "is_nonzero", "equal")


class NoReads(TorchDispatchMode):
    """Refuses what reads a value, on any device: here the loop around a step, on a CPU."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        assert func.overloadpacket.__name__ not in READS, f"{func} reads a value"
        return func(*args, **(kwargs or {}))


def watch():
    train = fit.train

    def watched(*args):
        with NoReads():
            return train(*args)

    fit.train = watched


def watch_one_that_reads():
    watch()
    at_call(loop, "clip", 7, lambda: torch.ones(3).sum().item())


def test_the_loop_around_a_step_waits_for_nothing_either(shared):
    quiet = {"trainer.validate_every": 0}
    assert run_job(freeze(shared, quiet, "watched"), watch) == 0
    told = freeze(shared, quiet, "reading")
    assert run_job(told, watch_one_that_reads) == 1
    assert "reads a value" in last_word(told)["message"]
