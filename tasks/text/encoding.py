"""Pieces of text on every core: words are remembered, and chunks are shared among processes."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, TypeVar

from sweeper.store.liveness import cores

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Item = TypeVar("Item")
Result = TypeVar("Result")

# The words of printable ASCII, as pre-tokenizers of `train_bpe` and `train_wordpiece` find them.
_WORDS = {
    "BPE": r"'s|'t|'re|'ve|'m|'ll|'d| ?[a-zA-Z]+| ?[0-9]+| ?[^ a-zA-Z0-9]+| +(?![^ ])| +",
    "WordPiece": r"[a-zA-Z0-9]+|[^ a-zA-Z0-9]",
}
# All characters between two spaces, if one is beyond ASCII. Both pre-tokenizers split at spaces.
_BEYOND = r" ?[!-~]*+[^\x00-\x7f][^ ]*"
_REMEMBERED = 250_000  # words, some 60 MB
_LONGEST = 40  # letters without a space; scripts that write none have no words to remember


class Encoder:
    """Encodes lines as a tokenizer of this project does, without special tokens.

    The pieces of words are remembered; lines with other spaces than that of ASCII, with what cannot
    be printed, or with what may be a special token, go to the library.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        words = _WORDS[json.loads(tokenizer.to_str())["model"]["type"]]
        self._find = re.compile(words).findall
        self._find_beyond = re.compile(f"{_BEYOND}|{words}").findall
        self._known: dict[str, list[int]] = {}

    def __call__(self, text: str) -> list[int]:
        """Return the pieces of a line."""
        if not text.isprintable() or "[" in text:
            return self._pieces(text)
        if text.isascii():
            found = self._find(text)
        elif max(map(len, text.split(" "))) <= _LONGEST:
            found = self._find_beyond(text)
        else:
            return self._pieces(text)
        known = self._known
        try:
            return [piece for word in found for piece in known[word]]
        except KeyError:
            if len(known) > _REMEMBERED:
                known.clear()
            known.update((word, self._pieces(word)) for word in found if word not in known)
            return [piece for word in found for piece in known[word]]

    def _pieces(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        return ids


FEW = 4  # the fewest items that are shared among processes


def in_order(
    function: Callable[[Item], Result], items: Iterable[Item], processes: int | None = None
) -> Iterator[Result]:
    """Yield `function` of each item in order, computed by `processes` (None: one for each core).

    Processes are forked, so this one must have no threads; they end with it, however it ends.
    """
    left = iter(items)
    count = cores() if processes is None else processes
    first = [*itertools.islice(left, FEW)]
    left = itertools.chain(first, left)
    alone = count == 1 or len(first) < FEW
    # One item is done before processes are forked, so that they know its words.
    yield from map(function, left if alone else itertools.islice(left, 1))
    workers: list[Connection] = []
    try:
        for item in itertools.islice(left, count):
            workers.append(_forked(function, workers))
            workers[-1].send(item)
        waiting = deque(workers)  # in the order of their items
        while waiting:
            worker = waiting.popleft()
            try:
                done, result = worker.recv()
            except EOFError:
                raise OSError("a process that read text with this one was ended") from None
            if not done:
                raise result
            for item in itertools.islice(left, 1):
                worker.send(item)
                waiting.append(worker)
            yield result
    finally:
        for worker in workers:
            worker.close()


def _forked(function: Callable[[Any], Any], others: Sequence[Connection]) -> Connection:
    """Start a process that answers items until this one is gone; return the way to it."""
    here, there = multiprocessing.Pipe()

    def serve() -> None:
        os.environ["TOKENIZERS_PARALLELISM"] = "false"  # its threads are not forked
        for end in (here, *others):  # or the process would hold its own end open
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
