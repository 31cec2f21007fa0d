"""What the prepared data of fine-tuning tasks have in common: their names and their tokenizer."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sweeper.store.files import canonical, child
from tasks.fine_tuning.sequences import FORMAT
from tasks.text.tokenizer import load_tokenizer, save_tokenizer, train_wordpiece

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

SPLITS = ("train", "validation", "test")
CHUNK = 1000  # texts encoded at a time


@dataclass(frozen=True)
class ExampleSettings:
    """What shapes the arrays beside the examples themselves: keys of a fine-tuning task.

    tokenizer: the folder of the pre-training's prepared data, None to train one of its own.
    """

    tokenizer: str | None
    vocabulary_size: int
    tokenizer_lines: int
    sequence_length: int


def folder_name(kind: str, digest: str, settings: ExampleSettings) -> str:
    """Return the name of the folder that holds these examples in this shape."""
    content = {"format": FORMAT, "digest": digest, **asdict(settings)}
    return f"{kind}-{hashlib.sha256(canonical(content).encode()).hexdigest()[:16]}"


def encodings(tokenizer: Tokenizer, texts: Sequence[str]) -> Iterator[Encoding]:
    """Yield each text's pieces (`ids`) and where they stand in it (`offsets`), without marks."""
    for first in range(0, len(texts), CHUNK):
        chunk = list(texts[first : first + CHUNK])
        yield from tokenizer.encode_batch(chunk, add_special_tokens=False)


def tokenizer_for(
    folder: Path, texts: Iterable[tuple[str, str]], settings: ExampleSettings
) -> Tokenizer:
    """Return the pre-training's tokenizer, or one trained on these texts, each different one once.

    Raises UserError where the pre-training's is missing or damaged.
    """
    if settings.tokenizer is not None:
        return load_tokenizer(child(folder.parent, settings.tokenizer) / "tokenizer.json")
    path = folder / "tokenizer.json"
    if not path.exists():
        lines = dict.fromkeys(itertools.chain.from_iterable(texts))
        chosen = itertools.islice(lines, settings.tokenizer_lines)
        save_tokenizer(train_wordpiece(chosen, settings.vocabulary_size), path)
    return load_tokenizer(path)
