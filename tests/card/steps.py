"""Training steps and single operators on the card: waits, errors and large tensors."""

import torch

from tasks.batch import prefetched
from tasks.parse import data_of, module_of, parse
from tasks.training import machine
from tasks.training.steps import Steps, fabric_for
from tests.card.card import Card, pinned

MATH = 0  # of at::SDPBackend


def measured(shim, config):
    """Return what one training step did."""
    machine.compute_repeatably("cuda")
    config = parse(config)
    with torch.device("meta"):
        module = module_of(config)
    row = module.example()
    rows = data_of(config).tokens_seen(1) // module.positions(row)
    batch = {key: of.repeat(rows, *[1] * (of.dim() - 1)) for key, of in row.items()}
    with Card() as card:
        fabric = fabric_for(config.trainer, "cuda")
        [batch] = prefetched([batch], fabric.device)  # no text is read here
        steps = Steps(fabric, module.to_empty(device="cuda"))
        plain = shim.times_chosen(MATH)
        card.waits.clear()
        steps(0, batch)
    return {
        "plain_attention": shim.times_chosen(MATH) - plain,
        "waits": card.waits,
        "largest": card.largest,
    }


PROBES = {
    "product": lambda x: x @ x,
    "item": lambda x: x.sum().item(),
    "copy to the host": lambda x: x.cpu(),
    "copy to the card": lambda x: torch.ones(3).to(x.device),
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
