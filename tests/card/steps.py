"""Training steps and single operators on the card: launches, memory, waits and errors."""

import torch

from tasks.batch import prefetched
from tasks.parse import data_of, module_of, parse
from tasks.training import machine
from tasks.training.steps import Steps, fabric_for
from tests.card.card import Card, pinned

MATH = 0  # of at::SDPBackend


def measured(shim, config, steps):
    """Return what the last of so many training steps did, and the peak of all."""
    machine.compute_repeatably("cuda")
    config = parse(config)
    with torch.device("meta"):
        module = module_of(config)
    row = module.example()
    rows = data_of(config).tokens_seen(1) // module.positions(row)
    batch = {key: of.repeat(rows, *[1] * (of.dim() - 1)) for key, of in row.items()}
    with Card() as card:
        fabric = fabric_for(config.trainer, "cuda")
        batches = prefetched([batch] * steps, fabric.device)  # no text is read here
        steps_of = Steps(fabric, module.to_empty(device="cuda"))
        plain = shim.times_chosen(MATH)
        for number in range(steps):
            card.phase = f"step {number}"
            steps_of(number, next(batches))
    return {
        "plain_attention": shim.times_chosen(MATH) - plain,
        "waits": [wait for wait in card.waits if wait.phase != "start"],
        "launches": card.launches(card.phase),
        "largest": {dtype: size for (at, dtype), size in card.largest.items() if at == card.phase},
        "peak": card.memory.peak,
    }


PROBES = {  # on a GPU: an operator, how often the host waits, words of the error
    "svdvals, single": (torch.linalg.svdvals, 0, "None"),
    "svdvals, half": (lambda x: torch.linalg.svdvals(x.bfloat16()), 0, "for half precision"),
    "product": (lambda x: x @ x, 0, "without CUBLAS_WORKSPACE_CONFIG"),
    "item": (lambda x: x.sum().item(), 1, "None"),
    "copy to the host": (lambda x: x.cpu(), 1, "None"),
    "copy to the card": (lambda x: torch.ones(3).to(x.device), 1, "None"),
    "copy without a pin": (lambda x: torch.ones(3).to(x.device, non_blocking=True), 1, "None"),
    "pinned copy": (lambda x: pinned(torch.ones(3)).to(x.device, non_blocking=True), 0, "None"),
    "mask": (lambda x: x[torch.zeros(7, 7, dtype=torch.bool, device=x.device)], 1, ""),
    "both in a row": (
        lambda x: torch.stack((x.sum(), torch.tensor(1.0))),
        0,
        "to be on the same device",
    ),
    "running sum": (lambda x: x.cumsum(0), 0, "does not have a deterministic implementation"),
    "running count": (lambda x: x.long().cumsum(0), 0, "None"),
}


def probed():
    """Return the waits and the error of each probe that does not end as on a GPU."""
    torch.use_deterministic_algorithms(True)
    found = {}
    for name, (probe, waits, words) in PROBES.items():
        waited, error = _tried(probe)
        if waited != waits or words not in str(error):
            found[name] = [waited, error]
    return found


def _tried(probe):
    error = None
    with Card() as card:
        x = torch.empty(7, 7, device="cuda")
        try:
            probe(x)
        except Exception as raised:  # whatever CUDA says is what is asked for
            error = f"{type(raised).__name__}: {raised}"
    return len(card.waits), error
