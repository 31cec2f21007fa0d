"""The speed of this machine, from which the first estimate of a run's time is made.

Later estimates use the measured times of runs.
"""

import time

import torch

SPEED_S = 1.0  # the duration of the measurement, in seconds


def flops_per_second() -> float:
    """Measure and return the FLOPs per second of matrix products on the CPU."""
    size = 256
    matrix_SS = torch.ones(size, size)
    products, begun = 0, time.perf_counter()
    while (seconds := time.perf_counter() - begun) < SPEED_S:
        torch.mm(matrix_SS, matrix_SS)
        products += 1
    return products * 2 * size**3 / seconds
