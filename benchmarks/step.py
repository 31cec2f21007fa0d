"""Compare a training step of the decoder with other libraries: `python -m benchmarks.step`.

The models of all libraries have the same layers, widths, heads and head size (`Shape`). A gated
feed-forward layer has three matrices instead of two, so it is two thirds as wide. If heads share
keys, our decoder is a modern one (rotary, RMSNorm, gated), and is compared only with Mistral. All
models use tied embeddings, no dropout and fused AdamW.

Each variant runs in its own process, so that its settings do not affect the others. A model of
another library runs with its defaults, and again with our memory setting (`keep_memory`).
"""

import importlib
import random
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from statistics import median
from typing import Any

from benchmarks.measure import interleaved, measured_on, present, smoke, speed_up, table

if __name__ == "__main__":
    smoke(__doc__)  # so that --help is answered before torch is imported

import torch
import torch.nn.functional as F
from torch import Tensor

from models.attention.grouped_query import GroupedQueryAttention
from models.transformer import Decoder
from tasks.training.machine import keep_memory

Step = Callable[[], None]


@dataclass(frozen=True)
class Shape:
    """The sizes of a decoder and of its batch, which has `rows` rows of `length` positions."""

    layers: int
    embedding_size: int
    heads: int
    head_size: int
    feedforward_size: int
    vocabulary_size: int
    rows: int
    length: int
    key_value_heads: int | None = None


SHAPES = {
    "tiny32": Shape(2, 64, 8, 32, 256, 4096, 8, 256),
    "d256-h8": Shape(6, 256, 8, 32, 1024, 32768, 2, 256),
    "d256-h70": Shape(6, 256, 70, 32, 1024, 32768, 2, 256),
    "d512-h8": Shape(6, 512, 8, 64, 2048, 32768, 2, 256),
    "today-d256-h8": Shape(6, 256, 8, 64, 1024, 32768, 2, 256, key_value_heads=2),
}
TODAY: dict[str, Any] = {
    "position_encoding": "rotary",
    "normalisation": "rms",
    "feedforward": "gated",
    "activation": "silu",
    "biases": False,
    "scale_embeddings": False,
}
SMOKE = {"smoke": Shape(1, 8, 2, 4, 16, 64, 2, 16)}
# The mean and standard deviation of the logarithm of a sentence's length in LM1B. The average
# sentence has 29 pieces.
MEAN, SIGMA = 3.19, 0.6


def batch(shape: Shape) -> tuple[Tensor, Tensor, Tensor]:
    """Return random tokens, and the segments and positions of sentences with LM1B's lengths.

    Each tensor has the shape (rows, length).
    """
    lengths = random.Random(0)
    tokens_BT = torch.randint(2, shape.vocabulary_size, (shape.rows, shape.length))
    segments_BT, positions_BT = torch.zeros_like(tokens_BT), torch.zeros_like(tokens_BT)
    for row in range(shape.rows):
        start = number = 0
        while start < shape.length:
            drawn = max(1, round(lengths.lognormvariate(MEAN, SIGMA)))
            end, number = min(start + drawn, shape.length), number + 1
            segments_BT[row, start:end] = number
            positions_BT[row, start:end] = torch.arange(end - start)
            start = end
    return tokens_BT, segments_BT, positions_BT


def step(loss: Callable[[], Tensor], model: torch.nn.Module) -> Step:
    """Return a training step: the given loss, the backward pass, and fused AdamW."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)

    def run() -> None:
        loss().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()

    return run


def headroom(shape: Shape, compiled: bool = False) -> Step:
    """Return a training step of our decoder. If `compiled` is True, compile each of its blocks."""
    today: dict[str, Any] = {}
    if shape.key_value_heads:
        today = {**TODAY, "feedforward_size": 2 * shape.feedforward_size // 3}
        today["attention"] = partial(
            GroupedQueryAttention, key_value_heads=shape.key_value_heads
        )
    model = Decoder(
        vocabulary_size=shape.vocabulary_size,
        layers=shape.layers,
        embedding_size=shape.embedding_size,
        heads=shape.heads,
        head_size=shape.head_size,
        **{"feedforward_size": shape.feedforward_size, **today},
    )
    tokens_BT, *segments = batch(shape)
    for block in model.blocks if compiled else ():
        block.compile()
    targets_BT = tokens_BT.roll(-1, 1)

    def loss() -> Tensor:
        nats, count = model.loss(model(tokens_BT, *segments), targets_BT)
        return nats / count

    return step(loss, model)


def transformers(shape: Shape) -> Step:
    """Return a training step of Hugging Face's Mistral, a decoder that supports any head size."""
    library = importlib.import_module("transformers")
    config = library.MistralConfig(
        vocab_size=shape.vocabulary_size,
        hidden_size=shape.embedding_size,
        intermediate_size=2 * shape.feedforward_size // 3,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_value_heads or shape.heads,
        head_dim=shape.head_size,
        max_position_embeddings=shape.length,
        tie_word_embeddings=True,
        sliding_window=None,
        use_cache=False,
    )
    model, (tokens_BT, *_) = library.MistralForCausalLM(config), batch(shape)
    return step(lambda: model(input_ids=tokens_BT, labels=tokens_BT).loss, model)


def x_transformers(shape: Shape) -> Step:
    """Return a training step of x-transformers' decoder, with fused attention."""
    library = importlib.import_module("x_transformers")
    model = library.TransformerWrapper(
        num_tokens=shape.vocabulary_size,
        max_seq_len=shape.length,
        tie_embedding=True,
        attn_layers=library.Decoder(
            dim=shape.embedding_size,
            depth=shape.layers,
            heads=shape.heads,
            attn_dim_head=shape.head_size,
            attn_flash=True,
            ff_mult=shape.feedforward_size / shape.embedding_size,
        ),
    )
    tokens_BT, *_ = batch(shape)
    targets = tokens_BT.roll(-1, 1).flatten()
    return step(lambda: F.cross_entropy(model(tokens_BT).flatten(0, 1), targets), model)


_steps: list[Step] = []  # the single step of a worker process


def start(make: Callable[[], Step], keep: bool) -> None:
    """Set up a worker process with one thread, and create its training step.

    If `keep` is True, also use the memory setting of our training jobs (`keep_memory`).
    """
    torch.set_num_threads(1)
    torch.manual_seed(0)
    if keep:
        keep_memory()
    _steps.append(make())


def seconds() -> float:
    """Take one step and return its CPU seconds."""
    begun = time.thread_time()
    _steps[0]()
    return time.thread_time() - begun


def compared(name: str, shape: Shape, peers: list[Any], rounds: int) -> str:
    """Return a table of tokens per second, and of our decoder's speed-up over each variant.

    Args:
        name: the name of the shape, for the head of the table.
        shape: the sizes of all models.
        peers: functions such as `transformers`, which return a training step of another library.
        rounds: how many steps to time for each variant.
    """
    variants = {"headroom": (partial(headroom, shape), True)}
    if peers:
        variants["headroom compiled"] = (partial(headroom, shape, compiled=True), True)
    for peer in [transformers] if shape.key_value_heads and peers else peers:
        variants[peer.__name__] = (partial(peer, shape), False)
        variants[f"{peer.__name__}, memory kept"] = (partial(peer, shape), True)
    with ExitStack() as stack:
        timed = {}
        for variant, given in variants.items():
            pool = ProcessPoolExecutor(
                1, get_context("spawn"), initializer=start, initargs=given
            )
            stack.enter_context(pool)
            timed[variant] = lambda pool=pool: pool.submit(seconds).result()
        times = interleaved(timed, rounds)
    tokens = shape.rows * shape.length
    rows = [
        (variant, f"{tokens / median(taken):,.0f}") for variant, taken in times.items()
    ]
    for variant in [*times][1:]:
        rows.append((f"headroom over {variant}", speed_up(times, "headroom", variant)))
    return table((name, "tokens/s, or ratio: median (quartiles)"), rows)


def main() -> None:
    """Measure and print a table for each shape."""
    tiny = smoke(__doc__)
    candidates = [] if tiny else [transformers, x_transformers]
    peers = [peer for peer in candidates if present(peer.__name__)]
    rounds = 2 if tiny else 7
    for name, shape in (SMOKE if tiny else SHAPES).items():
        print(compared(name, shape, peers, rounds), end="\n\n")
    print(f"{rounds} rounds, {measured_on()}")


if __name__ == "__main__":
    main()
