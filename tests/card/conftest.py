"""The card is compiled once, and a few processes do everything on it that the tests ask about."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _foreach_utils

from sweeper.hydra_section import composer
from sweeper.plan.planner import Planner
from tests.card.card import active, pinned
from tests.sweeper.plan.conftest import FakeProcess

ROOT = Path(__file__).resolve().parents[2]
TORCH = Path(torch.__file__).parent


@pytest.fixture(scope="session")
def library(tmp_path_factory):
    """The hooks of a CUDA device for the torch that is installed."""
    if torch.version.cuda or torch.version.hip:
        pytest.skip("needs a CPU build of torch: this one has hooks of its own")
    if not shutil.which("g++"):
        pytest.skip("needs g++")
    made = tmp_path_factory.mktemp("card") / "libcard.so"
    includes = [f"-I{TORCH / 'include'}", f"-I{TORCH / 'include/torch/csrc/api/include'}"]
    linked = [f"-L{TORCH / 'lib'}", f"-Wl,-rpath,{TORCH / 'lib'}", "-lc10", "-ltorch_cpu"]
    # -w: torch's own headers warn.
    command = ["g++", "-O1", "-w", "-shared", "-fPIC", "-std=c++20", *includes]
    subprocess.run([*command, str(ROOT / "tests/card/shim.cpp"), "-o", made, *linked], check=True)
    return made


@pytest.fixture(scope="session")
def jobs(library):
    """What `tests.card.jobs` found."""
    return _on_card(library, "jobs", {})


@pytest.fixture(scope="session")
def planned():
    """Plan a command line at gpu scale; returns the config of each run."""

    def configs(*arguments):
        settings = ("scale=gpu", "seed=0", "paths.outputs=outputs")
        plan = Planner(composer(), FakeProcess(), max_runs=1000).plan([*arguments, *settings])
        return [run.config for run in plan.runs.values()]

    return configs


@pytest.fixture(scope="session")
def steps(library):
    """Do so many training steps of each config; returns what `tests.card.jobs` found, by name."""

    def measured(configs, count):
        return _on_card(library, "steps", {name: [one, count] for name, one in configs.items()})

    return measured


def _on_card(library, what, request):
    asked, told = (library.with_name(f"{what}-{kind}.json") for kind in ("asked", "told"))
    asked.write_text(json.dumps(request))
    command = [sys.executable, "-m", "tests.card", library, what, asked, told]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(told.read_text())
    return found


NAME = "NVIDIA H200 (no real one)"


class Properties:
    """Of the card, as torch.cuda.get_device_properties returns them."""

    name, major, minor = NAME, 9, 0
    total_memory, multi_processor_count = 150_754_820_096, 132


def install():
    """Put the answers in place, for as long as this process lives."""
    answers = {
        "current_device": 0,
        "device_count": 1,
        "get_device_capability": (Properties.major, Properties.minor),
        "get_device_name": NAME,
        "get_device_properties": Properties,
        "get_rng_state_all": [],
        "is_available": True,
        "is_bf16_supported": True,
        "is_initialized": True,
        **dict.fromkeys(("_lazy_init", "empty_cache", "init", "ipc_collect"), None),
        **dict.fromkeys(
            ("manual_seed", "manual_seed_all", "set_device", "set_rng_state_all"), None
        ),
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, _constant(answer))
    torch.cuda.synchronize = _synchronize
    torch.cuda.max_memory_allocated = lambda device=None: max(c.memory.peak for c in active())
    torch.amp.autocast_mode.torch.cuda.amp.common.amp_definitely_not_available = _constant(False)
    Tensor.pin_memory = pinned
    FakeTensor.tolist = lambda tensor: tensor.cpu().tolist()
    FakeTensor.__reduce_ex__ = lambda tensor, protocol: (
        tensor.detach().cpu().__reduce_ex__(protocol)
    )
    _foreach_utils._foreach_supported_types.append(FakeTensor)
    nn.Module._apply = _apply


def _constant(answer):
    return lambda *_, **__: answer


def _synchronize(device=None):
    for card in active():
        card.wait("torch.cuda.synchronize")


def _apply(module, function, recurse=True):
    """Move by new parameters: the memory of one with no content cannot be swapped for a real one's.

    Whoever holds the old ones, as an optimizer may, would miss it; none does while it moves here.
    """
    for child in module.children() if recurse else ():
        child._apply(function)
    for slot in (module._parameters, module._buffers):
        for key, old in slot.items():
            if old is None:
                continue
            with torch.no_grad():
                new = function(old)
            if new is not old and slot is module._parameters:
                slot[key] = nn.Parameter(new.detach(), old.requires_grad)
            else:
                slot[key] = new
    return module
