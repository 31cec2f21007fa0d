"""Time the training steps of planned runs on a GPU: `python -m benchmarks.gpu RUN ...`.

RUN is the folder of a planned run, outputs/runs/ID. Its data must have been prepared. The steps are
those of a training job. The variant `plain` launches each kernel, and `recorded` replays a CUDA
graph. The variants `plain-compiled` and `recorded-compiled` do the same with compiled blocks.
"""

import argparse
import itertools
import json
import time
from collections.abc import Callable
from pathlib import Path

VARIANTS = ("plain", "recorded", "plain-compiled", "recorded-compiled")
LAUNCHED = 4  # the number of steps whose launches are timed


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=VARIANTS[:2])
    parser.add_argument(
        "--steps",
        type=int,
        default=20,
        help=f"number of steps to time, at least {LAUNCHED}",
    )
    parser.add_argument(
        "--kernels", type=int, default=0, help="number of slowest kernels to print"
    )
    return parser.parse_args()


if __name__ == "__main__":
    OPTIONS = arguments()  # so that --help is answered before torch is imported
# ruff: noqa: E402

import torch
from torch import Tensor

from benchmarks.measure import measured_on, table
from models.block import compile_blocks
from tasks.batch import prefetched
from tasks.data import TaskData
from tasks.module import TaskModule
from tasks.parse import data_of, module_of, parse
from tasks.training import machine
from tasks.training.captured import CapturedSteps
from tasks.training.steps import Steps, fabric_for

EQUAL = 10  # after this many steps, compare the weights with those of the first variant
HEAD = ["run", "variant", "ms", "ms of launches", "ms of kernels", "GB at most"]
HEAD += ["million tokens/s", "s of the first 10 steps", "weights apart"]

Step = Callable[[int], Tensor]


def training(data: TaskData, recorded: bool, compiled: bool) -> tuple[Step, TaskModule]:
    """Return a function that takes a training step as a job does, and the module that it trains.

    The argument of the function is the number of the step, from 1.
    """
    fabric = fabric_for(data.config.trainer, "cuda")
    module = module_of(data.config, data)
    if compiled:
        compile_blocks(module.model)
    steps = Steps(fabric, module)
    take_step = CapturedSteps(steps) if recorded else steps
    batches = prefetched(map(data.batch, itertools.count(1)), fabric.device)
    return lambda number: take_step(number - 1, next(batches)), module


def timed(step: Step, first: int, count: int) -> tuple[float, float]:
    """Take `count` steps, numbered from `first`. Return the milliseconds of a step and its launch.

    The launch is the time in which the host sends a step to the GPU. Both are means over steps.
    """
    torch.cuda.synchronize()
    begun = time.perf_counter()
    for number in range(first, first + LAUNCHED):
        step(number)
    launched = (time.perf_counter() - begun) / LAUNCHED
    for number in range(first + LAUNCHED, first + count):
        step(number)
    torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - begun) / count, 1e3 * launched


def kernels(step: Step, number: int) -> dict[str, float]:
    """Return the milliseconds of each kernel in a step, by kernel name, the slowest first."""
    with torch.profiler.profile() as found:
        step(number)
        torch.cuda.synchronize()
    each = {
        one.key[:100]: one.self_device_time_total / 1e3
        for one in found.key_averages()
        if one.device_type.name == "CUDA"
    }
    return dict(sorted(each.items(), key=lambda pair: -pair[1]))


def measured(
    data: TaskData, variant: str, count: int, plain: Tensor | None
) -> tuple[list[str], Tensor, dict[str, float]]:
    """Measure a variant.

    Return the cells of the variant's row in the table, the weights after EQUAL steps, and the
    milliseconds of each kernel in a step.

    Args:
        data: the data of the run.
        variant: one of VARIANTS.
        count: the number of steps to time.
        plain: the weights of the first variant after EQUAL steps, with which those of this variant
            are compared. None for the first variant itself.
    """
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    begun = time.perf_counter()
    step, module = training(data, "recorded" in variant, "compiled" in variant)
    for number in range(1, EQUAL + 1):
        step(number)
    weights = torch.cat([one.detach().flatten() for one in module.parameters()])
    apart = 0.0 if plain is None else (weights - plain).abs().max().item()
    started = time.perf_counter() - begun
    taken, launched = timed(step, EQUAL + 1, count)
    peak = torch.cuda.max_memory_allocated() / 1e9
    found = kernels(step, EQUAL + count + 1)
    rate = data.tokens_seen(1) / taken / 1e3
    numbers = [taken, launched, sum(found.values()), peak, rate, started]
    return [*(f"{number:.2f}" for number in numbers), f"{apart:.1g}"], weights, found


def main(options: argparse.Namespace) -> None:
    """Measure each run and variant, and print a table. Print the slowest kernels if requested."""
    device = torch.cuda.get_device_name()
    rows = []
    for path in options.runs:
        record = json.loads((path / "run.json").read_text("utf-8"))
        config = parse(record["config"])
        machine.set_up(config.trainer)
        data = data_of(config, path.parent.parent)
        data.prepare_data()
        data.setup("fit")
        plain: Tensor | None = None
        for variant in options.variants:
            cells, weights, found = measured(data, variant, options.steps, plain)
            plain = weights if plain is None else plain
            rows.append([path.name, variant, *cells])
            print(*rows[-1], sep=" | ", flush=True)
            for name, taken in [*found.items()][: options.kernels]:
                print(f"    {taken:7.3f} ms  {name}", flush=True)
    print(table(HEAD, rows))
    print(f"{device}, {measured_on()}")


if __name__ == "__main__":
    main(OPTIONS)
