"""The file format safetensors: the length of a JSON header, the header, the numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping

import torch
from torch import Tensor


def encode(tensors: Mapping[str, Tensor]) -> bytes:
    """Return tensors in single precision as the bytes of a file."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    parts: list[bytes] = []
    start = 0
    for name, tensor in tensors.items():
        content = tensor.detach().to("cpu", torch.float32).contiguous().numpy().tobytes()
        place = [start, start := start + len(content)]
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": place}
        parts.append(content)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])
