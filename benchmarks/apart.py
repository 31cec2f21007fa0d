"""Variants in processes of their own, so that what one sets up in its process helps no other."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection

from benchmarks.measure import Times, turns

Make = Callable[[], Callable[[], object]]
"""Makes a variant, in the process that it is called in from then on; can be pickled."""


def apart(makers: Mapping[str, Make], rounds: int) -> Times:
    """Return the CPU seconds of each variant, which take turns as in `interleaved`.

    Raises:
        SystemExit: a variant failed; its process has told why.
    """
    context = get_context("spawn")
    with ExitStack() as stack:
        timed = {}
        for name, make in makers.items():
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(there, make))
            process.start()
            there.close()
            stack.callback(process.join)
            timed[name] = partial(_turn, name, stack.enter_context(here))
        return turns(timed, rounds)


def _turn(name: str, connection: Connection) -> float:
    try:
        connection.send(None)
        seconds: float = connection.recv()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        raise SystemExit(f"{name} failed; what it said stands above.") from None
    return seconds


def _serve(connection: Connection, make: Make) -> None:
    variant = make()
    while True:
        try:
            connection.recv()
        except EOFError:
            return
        begun = time.thread_time()
        variant()
        connection.send(time.thread_time() - begun)
