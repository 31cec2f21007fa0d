"""Single operators on the card: what it says of each."""

import torch

from tests.card.card import Card, pinned

PROBES = {
    "svdvals, single": torch.linalg.svdvals,
    "svdvals, half": lambda x: torch.linalg.svdvals(x.bfloat16()),
    "qr, half": lambda x: torch.linalg.qr(x.bfloat16()),
    "sum": lambda x: x.sum(),
    "item": lambda x: x.sum().item(),
    "list": lambda x: x.tolist(),
    "copy to the host": lambda x: x.cpu(),
    "copy to the card": lambda x: torch.ones(3).to(x.device),
    "copy that waits for its memory": lambda x: torch.ones(3).to(x.device, non_blocking=True),
    "pinned copy": lambda x: pinned(torch.ones(3)).to(x.device, non_blocking=True),
    "mask": lambda x: x[torch.zeros(7, 7, dtype=torch.bool, device=x.device)],
    "running sum": lambda x: x.cumsum(0),
    "running count": lambda x: x.long().cumsum(0),
}


def everything():
    """Return the error and the number of waits of each."""
    torch.use_deterministic_algorithms(True)
    return {name: _tried(probe) for name, probe in PROBES.items()}


def _tried(probe):
    error = None
    with Card() as card:
        x = torch.empty(7, 7, device="cuda")
        try:
            probe(x)
        except Exception as raised:  # whatever CUDA says is what is asked for
            error = f"{type(raised).__name__}: {raised}"
    return {"error": error, "waits": len(card.waits)}
