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
        "largest": {
            dtype: size
            for (at, dtype), size in card.largest.items()
            if at == card.phase
        },
        "peak": card.memory.peak,
    }


PROBES = {
    "product": lambda x: x @ x,
    "item": lambda x: x.sum().item(),
    "copy to the host": lambda x: x.cpu(),
    "copy to the card": lambda x: torch.ones(3).to(x.device),
    "copy without a pin": lambda x: torch.ones(3).to(x.device, non_blocking=True),
    "pinned copy": lambda x: pinned(torch.ones(3)).to(x.device, non_blocking=True),
}


def probed():
    """Return how often the host waits in each probe."""
    found = {}
    for name, probe in PROBES.items():
        with Card() as card:
            probe(torch.empty(7, 7, device="cuda"))
        found[name] = len(card.waits)
    return found
