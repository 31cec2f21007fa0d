"""Functions that split text into sentences, and tokenizers (byte-level BPE and WordPiece)."""

import hashlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)
from tokenizers.processors import BertProcessing

from sweeper.store.errors import UserError, invalid_value
from sweeper.store.files import child, publish
from tasks.text.source import batches

PREPARED_AGAIN = "delete its folder. The next sweep prepares the data again."

# The end of a sentence: one or more punctuation marks, then closing quotes and brackets, then white
# space. The full stops of Chinese and Japanese need no white space. If several marks follow each
# other, a match must start at the first. Otherwise a long line of full stops would take quadratic
# time.
_END = re.compile(
    r"(?<![.!?…])[.!?…]++[\"'”’)\]]*+\s+|(?<![。！？])[。！？]++[”’」』）]*+\s*+"
)
# The last mark of a line, if it ends a sentence or a clause.
_LAST = re.compile(r"(?<![.!?…。！？:;])[.!?…。！？:;]++[\"'”’)\]」』）]*+$")
_OPENING = "\"'“‘([«—-"
# A full stop after one of these words, or after a single capital letter, does not end a sentence.
_ABBREVIATIONS = frozenset(
    "mr mrs ms mme mlle messrs dr prof rev hon st capt col gen lt maj sgt gov sen rep jr sr "
    "vs cf e.g i.e vol fig ca approx dept jan feb aug sept oct nov dec".split()
)

_LONGEST = 16  # search this many characters before a full stop for an abbreviation


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a paragraph, in order, without surrounding white space.

    A full stop before a lower-case letter or after an abbreviation does not end a sentence.
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
    """Return whether a line of text ends a sentence or a clause."""
    end = _LAST.search(text)
    return end is not None and not _abbreviated(text, end.start())


def _abbreviated(text: str, stop: int) -> bool:
    """Return whether text[stop] is the full stop of an abbreviation or an initial."""
    if text[stop] != ".":
        return False
    before = text[max(stop - _LONGEST, 0) : stop]
    word = before[-1:].strip() and before.split()[-1].lstrip(_OPENING)
    last = word.rsplit(".", 1)[-1]  # "S" if the word is "U.S"
    is_initial = len(last) == 1 and last.isupper() and word != "I"
    return word.lower() in _ABBREVIATIONS or is_initial


PAD = 0  # the token id that fills the end of a row, and that is the first input of a segment
END = 1  # the id of the token after every sentence
LARGEST_VOCABULARY = 65_535  # an id takes two bytes on disk
# The tokens PAD and END. No text is encoded as them, because the byte-level alphabet lacks the
# brackets.
MARKS = ("\u27e8pad\u27e9", "\u27e8end\u27e9")
SMALLEST_BPE = 256 + len(MARKS)  # each byte needs a token of its own

BERT_MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")  # ids 0 to 4
# The alphabet of WordPiece has this many of the most frequent characters. A word with any other
# character becomes [UNK].
WORDPIECE_CHARACTERS = 1000

TOKENIZER = "tokenizer.json"
BATCH = 1000  # pass this many lines to `tokenizers` at a time


LARGEST_SAMPLE = 512_000_000  # in bytes; a million lines of LM1B have 130 MB


def sample_of(lines: Iterable[str], most: int) -> Iterator[str]:
    """Yield the first lines, as a sample on which to train a tokenizer.

    Yield at most `most` lines, and at most LARGEST_SAMPLE bytes.
    """
    left = LARGEST_SAMPLE
    for line in itertools.islice(lines, most):
        left -= len(line.encode())
        if left < 0:
            return
        yield line


def train_bpe(lines: Iterable[str], vocabulary_size: int) -> Tokenizer:
    """Return a byte-level BPE tokenizer with at most `vocabulary_size` tokens.

    PAD and END have the ids 0 and 1.
    """
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
    # Remove the special tokens from the list of added tokens, because `tokenizers` searches each
    # text for those. They stay in the vocabulary.
    return _with_added(tokenizer, ())


def train_wordpiece(lines: Iterable[str], vocabulary_size: int) -> Tokenizer:
    """Return a lower-casing WordPiece tokenizer, like BERT's.

    It has at most `vocabulary_size` tokens. The ids of BERT_MARKS are 0 to 4.

    Raises:
        UserError: `vocabulary_size` is too small for the characters of the lines.
    """
    texts = list(lines)
    normalizer = normalizers.BertNormalizer(lowercase=True)
    characters = Counter[str]()
    for text in texts:
        characters.update(normalizer.normalize_str(text))

    common = sorted(characters, key=lambda letter: (-characters[letter], letter))
    frequent = common[:WORDPIECE_CHARACTERS]
    alphabet = sorted(character for character in frequent if not character.isspace())
    # By default, `tokenizers` numbers continuation tokens (such as ##a) in the random order of a
    # hash map. Token ids break ties between merges, so the vocabulary would be random, too. Special
    # tokens are numbered in the given order. So pass the continuation tokens as special tokens.
    continuations = ["##" + character for character in alphabet]
    smallest = len(BERT_MARKS) + 2 * len(alphabet)
    if vocabulary_size < smallest:
        expected = (
            f"at least {smallest}, since each character of the text takes two tokens"
        )
        remedy = f"set task.vocabulary_size={smallest}"
        raise invalid_value("task.vocabulary_size", vocabulary_size, expected, remedy)

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
    """Return the tokenizer for the data that are being prepared in `folder`.

    If `section.tokenizer` is the folder name of other prepared data, load their tokenizer.
    Otherwise, train a tokenizer on the first lines, and save it as tokenizer.json in `folder`. If a
    text contains the name of a special token, such as "[SEP]", the tokenizer encodes this name like
    any other text.

    Args:
        folder: the folder of the prepared data.
        train: a function that trains a tokenizer, given lines and the largest vocabulary size.
        lines: the lines of the training split.
        section: the config's section `task`. `vocabulary_size` limits the number of tokens, and
            `tokenizer_lines` the number of lines to train on.
    """
    path = folder / TOKENIZER
    if named := getattr(section, "tokenizer", None):
        path = child(folder.parent, named) / TOKENIZER
    else:
        sample = sample_of(lines, section.tokenizer_lines)
        save_tokenizer(train(sample, section.vocabulary_size), path)
    tokenizer = load_tokenizer(path)
    tokenizer.encode_special_tokens = True
    return tokenizer


def pieces_of(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Return the token ids of each text, without special tokens."""
    encoded = tokenizer.encode_batch_fast(texts, add_special_tokens=False)
    return [one.ids for one in encoded]


def save_tokenizer(tokenizer: Tokenizer, path: Path) -> None:
    """Write the tokenizer's sha256 to `<path>.sha256`, and then the tokenizer to `path`."""
    content = tokenizer.to_str().encode()
    publish(_sidecar(path), f"{hashlib.sha256(content).hexdigest()}\n")
    publish(path, content)


def load_tokenizer(path: Path) -> Tokenizer:
    """Return the tokenizer that `save_tokenizer` wrote to `path`.

    Raises:
        UserError: the file is missing, or has changed since it was written.
    """
    try:
        content, expected = path.read_bytes(), _sidecar(path).read_bytes()
    except OSError as error:
        raise UserError(
            f"{path} cannot be read ({error.strerror}); {PREPARED_AGAIN}"
        ) from error
    if hashlib.sha256(content).hexdigest().encode() != expected.strip():
        raise UserError(f"{path} has changed since it was written; {PREPARED_AGAIN}")
    return Tokenizer.from_buffer(content)


def _with_added(tokenizer: Tokenizer, kept: tuple[str, ...]) -> Tokenizer:
    stored = json.loads(tokenizer.to_str())
    added = stored["added_tokens"]
    stored["added_tokens"] = [token for token in added if token["content"] in kept]
    return Tokenizer.from_str(json.dumps(stored))


def _sidecar(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")
