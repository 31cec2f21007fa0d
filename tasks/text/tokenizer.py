"""Sentences out of running text, and their pieces: byte-level BPE and BERT's WordPiece."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeper.store.errors import UserError, invalid_value
from sweeper.store.files import publish, read_bytes
from tasks.text.source import batches

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Marks that may end a sentence, closing quotes and brackets after them, then white space. The full
# stops of Chinese and Japanese need no white space. A match starts only where a run of marks does:
# otherwise a line of nothing but full stops would take quadratic time.
_END = re.compile(r"(?<![.!?…])[.!?…]++[\"'”’)\]]*+\s+|(?<![。！？])[。！？]++[”’」』）]*+\s*+")
_LAST = re.compile(r"(?<![.!?…。！？:;])[.!?…。！？:;]++[\"'”’)\]」』）]*+$")
_OPENING = "\"'“‘([«—-"
# After these, or after a single capital letter, a full stop ends nothing.
_ABBREVIATIONS = frozenset(
    "mr mrs ms mme mlle messrs dr prof rev hon st capt col gen lt maj sgt gov sen rep jr sr "
    "vs cf e.g i.e vol fig ca approx dept jan feb aug sept oct nov dec".split()
)

_LONGEST = 16  # characters that are looked at for an abbreviation


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a paragraph in order; together they are its text, less white space.

    A small letter after the mark begins no sentence, and an abbreviation ends none.
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
    """Return whether a line of text ends where a sentence, or a part of one, does."""
    end = _LAST.search(text)
    return end is not None and not _abbreviated(text, end.start())


def _abbreviated(text: str, stop: int) -> bool:
    """Return whether the mark at `stop` is the full stop of an abbreviation or of an initial."""
    if text[stop] != ".":
        return False
    before = text[max(stop - _LONGEST, 0) : stop]
    word = before[-1:].strip() and before.split()[-1].lstrip(_OPENING)
    last = word.rsplit(".", 1)[-1]  # U.S., J.R.R.
    return word.lower() in _ABBREVIATIONS or (len(last) == 1 and last.isupper() and word != "I")


PAD = 0  # fills a row's end; as an input it is what the first piece of a segment is predicted from
END = 1  # the last piece of every sentence
LARGEST_VOCABULARY = 65_535  # an id takes two bytes on disk
# Neither name can be written in text: the byte-level alphabet does not hold these brackets.
MARKS = ("\u27e8pad\u27e9", "\u27e8end\u27e9")
SMALLEST_BPE = 256 + len(MARKS)  # every byte is a piece

BERT_MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # ids 0 to 4
WORDPIECE_CHARACTERS = 1000  # rarer ones become [UNK]

BATCH = 1000  # lines handed to the library at a time


LARGEST_SAMPLE = 512_000_000  # bytes; a million of LM1B's lines are 130 MB


def sample_of(lines: Iterable[str], most: int) -> Iterator[str]:
    """Yield what a tokenizer learns from: at most so many first lines, and LARGEST_SAMPLE bytes."""
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
    # Added tokens are searched for in the text itself; pieces of the vocabulary are not.
    return _with_added(tokenizer, ())


def train_wordpiece(lines: Iterable[str], vocabulary_size: int) -> Tokenizer:
    """Return BERT's lower-cased WordPiece of at most `vocabulary_size` pieces, BERT_MARKS first."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
    from tokenizers.processors import BertProcessing

    texts = list(lines)
    normalizer = normalizers.BertNormalizer(lowercase=True)
    characters = Counter[str]()
    for text in texts:
        characters.update(normalizer.normalize_str(text))
    common = sorted(characters, key=lambda character: (-characters[character], character))
    alphabet = sorted(one for one in common[:WORDPIECE_CHARACTERS] if not one.isspace())
    # The library numbers these in hash order, and numbers break ties between merges: as sorted
    # special tokens they make training deterministic.
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
    path: Path,
    train: Callable[[Iterable[str], int], Tokenizer],
    lines: Iterable[str],
    section: Any,
) -> Tokenizer:
    """Return the tokenizer stored at `path`; if there is none, let it learn from lines first.

    `section` has `tokenizer_lines`, how many first lines it learns from, and `vocabulary_size`.
    """
    if not path.exists():
        sample = sample_of(lines, section.tokenizer_lines)
        save_tokenizer(train(sample, section.vocabulary_size), path)
    return load_tokenizer(path)


def save_tokenizer(tokenizer: Tokenizer, path: Path) -> str:
    """Write tokenizer.json, and its sha256 beside it; the file itself appears last."""
    content = tokenizer.to_str().encode()
    sha256 = hashlib.sha256(content).hexdigest()
    publish(_sidecar(path), f"{sha256}\n")
    publish(path, content)
    return sha256


def load_tokenizer(path: Path) -> Tokenizer:
    """Return the stored tokenizer; UserError if it is absent or is not what was written."""
    try:
        content, expected = read_bytes(path), read_bytes(_sidecar(path))
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); prepare the data.") from error
    if content is None or expected is None:
        raise UserError(f"{path} is missing, or its digest is; prepare the data.")
    if hashlib.sha256(content).hexdigest().encode() != expected.strip():
        raise UserError(f"{path} is not what was written; delete its folder, prepare the data.")
    from tokenizers import Tokenizer

    return Tokenizer.from_buffer(content)


def _check_size(vocabulary_size: int, smallest: int) -> None:
    if not smallest <= vocabulary_size <= LARGEST_VOCABULARY:
        expected = f"a whole number from {smallest} to {LARGEST_VOCABULARY}"
        raise invalid_value("task.vocabulary_size", vocabulary_size, expected, "choose one")


def _with_added(tokenizer: Tokenizer, kept: tuple[str, ...]) -> Tokenizer:
    from tokenizers import Tokenizer

    stored = json.loads(tokenizer.to_str())
    stored["added_tokens"] = [a for a in stored["added_tokens"] if a["content"] in kept]
    return Tokenizer.from_str(json.dumps(stored))


def _sidecar(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")
