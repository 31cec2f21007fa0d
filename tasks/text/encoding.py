"""Fast encoding of text to pieces: words are cached, and processes on all cores share the text."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import re
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TYPE_CHECKING, Any, TypeVar

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
_work: Callable[[Any], Any]  # what a process of `in_order` applies to its items


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
    first = list(itertools.islice(left, FEW))
    every = itertools.chain(first, left)
    if count == 1 or len(first) < FEW:
        yield from map(function, every)
        return

    fork = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(count, fork, _begin, (function,))
    try:
        waiting: deque[Future[Result]] = deque()
        for item in every:
            waiting.append(pool.submit(_do, item))
            if len(waiting) > AHEAD * count:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    except BrokenProcessPool:
        said = "a process that encodes text was killed; try again"
        raise OSError(said) from None
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(function: Callable[[Any], Any]) -> None:
    """Set up a process of `in_order`: it ends with its parent, which handles Ctrl-C alone."""
    global _work
    _work = function
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # threads do not survive a fork
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _do(item: Any) -> Any:
    return _work(item)
