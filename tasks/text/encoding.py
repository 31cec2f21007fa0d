"""Fast encoding of text to pieces: words are cached, and processes on all cores share the text."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from sweeper.store.cores import cores
from tasks.text.corpus import PIECES

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Item = TypeVar("Item")
Result = TypeVar("Result")

# How the pre-tokenizers of `train_bpe` and `train_wordpiece` find words in printable ASCII.
_WORDS = {
    "BPE": r"'s|'t|'re|'ve|'m|'ll|'d| ?[a-zA-Z]+| ?[0-9]+| ?[^ a-zA-Z0-9]+| +(?![^ ])| +",
    "WordPiece": r"[a-zA-Z0-9]+|[^ a-zA-Z0-9]",
}
# Turns such a word into the input of the tokenizer's model.
_MODEL_INPUT: dict[str, Callable[[str], str]] = {
    "BPE": lambda word: word.replace(" ", "\u0120"),  # the byte-level letter of a space
    "WordPiece": str.lower,
}
# All characters between two spaces, if one is not ASCII. Both pre-tokenizers split at spaces.
_BEYOND = r" ?[!-~]*+[^\x00-\x7f][^ ]*"
_CACHED = 250_000  # words, some 60 MB
# Letters; a line with a longer word (a script without spaces) is not cached.
_LONGEST = 40


class _Words(dict[str, bytes]):
    """A cache of the pieces of words. It encodes a word at its first use."""

    def __init__(self, tokenizer: Tokenizer, model_input: Callable[[str], str]) -> None:
        self._encode, self._model_input = tokenizer.encode, model_input
        self._tokenize = tokenizer.model.tokenize  # twice as fast as `encode`

    def __missing__(self, text: str) -> bytes:
        if len(self) > _CACHED:
            self.clear()
        if text.isascii():
            pieces = self._tokenize(self._model_input(text))
            # The bytes of PIECES.
            found = b"".join([piece.id.to_bytes(2, "little") for piece in pieces])
        else:
            found = self.encoded(text)
        self[text] = found
        return found

    def encoded(self, text: str) -> bytes:
        """Return the pieces of any text, without caching it."""
        return np.array(
            self._encode(text, add_special_tokens=False).ids, PIECES
        ).tobytes()


class Encoder:
    """An encoder of lines that gives the pieces of a tokenizer, without special tokens.

    It caches the pieces of words. The tokenizer itself encodes lines that have spaces beyond ASCII,
    unprintable characters or a possible special token.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        model = type(tokenizer.model).__name__
        words = _WORDS[model]
        self._find = re.compile(words).findall
        self._find_beyond = re.compile(f"{_BEYOND}|{words}").findall
        self._special = bool(
            tokenizer.get_added_tokens_decoder()
        )  # each begins with a bracket
        self._known = _Words(tokenizer, _MODEL_INPUT[model])

    def __call__(self, text: str) -> bytes:
        """Return the pieces of a line as the bytes of PIECES."""
        if not text.isprintable() or (self._special and "[" in text):
            return self._known.encoded(text)
        if text.isascii():
            found = self._find(text)
        elif max(map(len, text.split(" "))) <= _LONGEST:
            found = self._find_beyond(text)
        else:
            return self._known.encoded(text)
        return b"".join(map(self._known.__getitem__, found))


FEW = 4  # the fewest items that are worth several processes
AHEAD = 4  # the most results per process that may wait for an earlier one


def in_order(
    function: Callable[[Item], Result],
    items: Iterable[Item],
    processes: int | None = None,
) -> Iterator[Result]:
    """Yield `function(item)` for each item, in order, computed by several processes.

    The processes are forked, so the calling process must have no threads. They end when it ends,
    even if it is killed.

    Args:
        processes: the number of processes; None means one per core.

    Raises:
        OSError: a process was killed.
    """
    left = iter(items)
    count = cores() if processes is None else processes
    ahead = deque(itertools.islice(left, max(FEW, count)))
    if count == 1 or len(ahead) < FEW:
        yield from map(function, itertools.chain(ahead, left))
        return
    workers: list[Connection] = []
    idle: list[Connection] = []
    busy: dict[
        Connection, int
    ] = {}  # the number of the item on which each process works
    results: dict[
        int, tuple[bool, Any]
    ] = {}  # by number of the item, until it is its turn
    given, turn = itertools.count(), 0
    try:
        while True:
            go_on = turn in results or len(results) < AHEAD * count
            free = len(idle) + count - len(workers) if go_on else 0
            for _ in range(min(free, len(ahead))):
                if not idle:
                    workers.append(_forked(function, workers))
                    idle.append(workers[-1])
                worker = idle.pop()
                worker.send(ahead.popleft())
                busy[worker] = next(given)

            while turn in results:
                done, result = results.pop(turn)
                if not done:
                    raise result
                yield result
                turn += 1
            if not busy:
                return

            ahead += itertools.islice(
                left, count - len(ahead)
            )  # read while the processes work
            for ready in wait([*busy]):
                worker = cast(Connection, ready)
                try:
                    results[busy.pop(worker)] = worker.recv()
                except EOFError:
                    raise OSError(
                        "a process that encodes text was killed; try again"
                    ) from None
                idle.append(worker)
    finally:
        for worker in workers:
            worker.close()


def _forked(function: Callable[[Any], Any], others: Sequence[Connection]) -> Connection:
    """Start a process that applies `function` to items until its parent ends; return the pipe."""
    here, there = multiprocessing.Pipe()

    def serve() -> None:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"  # threads do not survive a fork
        for end in (
            here,
            *others,
        ):  # otherwise the pipe would stay open when the parent ends
            end.close()
        with suppress(EOFError, OSError, KeyboardInterrupt):
            while True:
                item = there.recv()
                try:
                    answer = True, function(item)
                except Exception as problem:
                    answer = False, problem
                there.send(answer)

    multiprocessing.get_context("fork").Process(target=serve, daemon=True).start()
    there.close()
    return here
