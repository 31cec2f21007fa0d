"""Splitting text into sentences, and tokenizers for their pieces: byte-level BPE and WordPiece."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeper.store.errors import UserError, invalid_value
from sweeper.store.files import publish
from tasks.text.source import batches

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Marks that may end a sentence, closing quotes and brackets after them, then white space. The full
# stops of Chinese and Japanese need no white space. A match must start at the first of a run of
# marks. Otherwise a line of nothing but full stops would take quadratic time.
_END = re.compile(
    r"(?<![.!?…])[.!?…]++[\"'”’)\]]*+\s+|(?<![。！？])[。！？]++[”’」』）]*+\s*+"
)
_LAST = re.compile(r"(?<![.!?…。！？:;])[.!?…。！？:;]++[\"'”’)\]」』）]*+$")
_OPENING = "\"'“‘([«—-"
# A full stop after these words, or after a single capital letter, ends no sentence.
_ABBREVIATIONS = frozenset(
    "mr mrs ms mme mlle messrs dr prof rev hon st capt col gen lt maj sgt gov sen rep jr sr "
    "vs cf e.g i.e vol fig ca approx dept jan feb aug sept oct nov dec".split()
)

_LONGEST = 16  # characters before a full stop that are searched for an abbreviation


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a paragraph, in order. Nothing but white space is lost.

    A sentence does not begin with a small letter or end with an abbreviation.
    """
    sentences, start = [], 0
    for end in _END.finditer(text):
        following = text[end.end() : end.end() + 4].lstrip(_OPENING)
        if following[:1].islower() or _abbreviated(text, end.start()):
            continue
        sentences.append(text[start : end.end()].strip())
        start = end.end()
    sentences.append(text[start:].strip())
    return [sentence for sentence in sentences if sentence]


def is_ended(text: str) -> bool:
    """Return whether a line of text ends with the end of a sentence or clause."""
    end = _LAST.search(text)
    return end is not None and not _abbreviated(text, end.start())


def _abbreviated(text: str, stop: int) -> bool:
    """Return whether the mark at `stop` is the full stop of an abbreviation or of an initial."""
    if text[stop] != ".":
        return False
    before = text[max(stop - _LONGEST, 0) : stop]
    word = before[-1:].strip() and before.split()[-1].lstrip(_OPENING)
    last = word.rsplit(".", 1)[-1]  # the S of U.S., the last R of J.R.R.
    return word.lower() in _ABBREVIATIONS or (
        len(last) == 1 and last.isupper() and word != "I"
    )


PAD = 0  # padding of a row, and the first input of every segment
END = 1  # the last piece of every sentence
LARGEST_VOCABULARY = 65_535  # an id takes two bytes on disk
# No text can contain these names, because the byte-level alphabet lacks their brackets.
MARKS = ("\u27e8pad\u27e9", "\u27e8end\u27e9")
SMALLEST_BPE = 256 + len(MARKS)  # every byte is a piece

BERT_MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # ids 0 to 4
WORDPIECE_CHARACTERS = 1000  # rarer ones become [UNK]

TOKENIZER = "tokenizer.json"
BATCH = 1000  # lines that are passed to the library at a time


LARGEST_SAMPLE = 512_000_000  # bytes; a million of LM1B's lines are 130 MB


def sample_of(lines: Iterable[str], most: int) -> Iterator[str]:
    """Yield the lines that train a tokenizer: the first `most`, up to LARGEST_SAMPLE bytes."""
    left = LARGEST_SAMPLE
    for line in itertools.islice(lines, most):
        left -= len(line.encode())
        if left < 0:
            return
        yield line


def train_bpe(lines: Iterable[str], vocabulary_size: int) -> Tokenizer:
    """Return byte-level BPE of at most `vocabulary_size` pieces; PAD and END are ids 0 and 1."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    _check_size(vocabulary_size, SMALLEST_BPE)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary_size,
        min_frequency=2,
        special_tokens=list(MARKS),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(batches(lines, BATCH), trainer)
    # Without added tokens: the library would look for them in the text itself.
    return _with_added(tokenizer, ())


def train_wordpiece(lines: Iterable[str], vocabulary_size: int) -> Tokenizer:
    """Return BERT's lower-cased WordPiece of at most `vocabulary_size` pieces, BERT_MARKS first."""
    from tokenizers import (
        Tokenizer,
        decoders,
        models,
        normalizers,
        pre_tokenizers,
        trainers,
    )
    from tokenizers.processors import BertProcessing

    texts = list(lines)
    normalizer = normalizers.BertNormalizer(lowercase=True)
    characters = Counter[str]()
    for text in texts:
        characters.update(normalizer.normalize_str(text))
    common = sorted(
        characters, key=lambda character: (-characters[character], character)
    )
    alphabet = sorted(one for one in common[:WORDPIECE_CHARACTERS] if not one.isspace())
    # The library numbers continuations in hash order, and the numbers break ties between merges.
    # Sorted special tokens have fixed numbers, which makes training deterministic.
    continuations = ["##" + character for character in alphabet]
    _check_size(vocabulary_size, len(BERT_MARKS) + 2 * len(alphabet))

    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary_size,
        min_frequency=2,
        special_tokens=[*BERT_MARKS, *continuations],
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)

    tokenizer = _with_added(tokenizer, BERT_MARKS)
    cls, sep = (BERT_MARKS.index(mark) for mark in ("[CLS]", "[SEP]"))
    tokenizer.post_processor = BertProcessing(("[SEP]", sep), ("[CLS]", cls))
    return tokenizer


def tokenizer_at(
    folder: Path,
    train: Callable[[Iterable[str], int], Tokenizer],
    lines: Iterable[str],
    section: Any,
) -> Tokenizer:
    """Train a tokenizer, store it in tokenizer.json of `folder` and return it as stored.

    Args:
        section: the section `task` of a config, with `vocabulary_size` and `tokenizer_lines`, the
            number of first lines to train on.
    """
    path = folder / TOKENIZER
    sample = sample_of(lines, section.tokenizer_lines)
    save_tokenizer(train(sample, section.vocabulary_size), path)
    return load_tokenizer(path)


def pieces_of(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Return the ids of the pieces of each text, without special tokens."""
    encoded = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    return [one.ids for one in encoded]


def save_tokenizer(tokenizer: Tokenizer, path: Path) -> None:
    """Write a tokenizer to `path`, after its sha256 in a second file."""
    content = tokenizer.to_str().encode()
    publish(_sidecar(path), f"{hashlib.sha256(content).hexdigest()}\n")
    publish(path, content)


def load_tokenizer(path: Path) -> Tokenizer:
    """Return the stored tokenizer.

    Raises:
        UserError: the file is missing, or has changed since it was written.
    """
    from tokenizers import Tokenizer

    try:
        content, expected = path.read_bytes(), _sidecar(path).read_bytes()
    except OSError as error:
        said = f"{path} cannot be read ({error.strerror}); prepare the data."
        raise UserError(said) from error
    if hashlib.sha256(content).hexdigest().encode() != expected.strip():
        raise UserError(
            f"{path} has changed since it was written; delete its folder and prepare the data."
        )
    return Tokenizer.from_buffer(content)


def _check_size(vocabulary_size: int, smallest: int) -> None:
    if not smallest <= vocabulary_size <= LARGEST_VOCABULARY:
        expected = f"a whole number from {smallest} to {LARGEST_VOCABULARY}"
        remedy = "choose a size in that range"
        raise invalid_value("task.vocabulary_size", vocabulary_size, expected, remedy)


def _with_added(tokenizer: Tokenizer, kept: tuple[str, ...]) -> Tokenizer:
    from tokenizers import Tokenizer

    stored = json.loads(tokenizer.to_str())
    stored["added_tokens"] = [a for a in stored["added_tokens"] if a["content"] in kept]
    return Tokenizer.from_str(json.dumps(stored))


def _sidecar(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")
