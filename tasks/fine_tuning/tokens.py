"""What preparing the data of fine-tuning tasks has in common: texts as pieces."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sweeper.store.files import child
from tasks.text.tokenizer import load_tokenizer, save_tokenizer, train_wordpiece

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

    from tasks.fine_tuning.shared import FineTuningSection

CHUNK = 1000  # texts encoded at a time


def encodings(tokenizer: Tokenizer, texts: Sequence[str]) -> Iterator[Encoding]:
    """Yield each text's pieces (`ids`) and where they stand in it (`offsets`), without marks."""
    for first in range(0, len(texts), CHUNK):
        chunk = list(texts[first : first + CHUNK])
        yield from tokenizer.encode_batch(chunk, add_special_tokens=False)


def tokenizer_for(
    folder: Path, texts: Iterable[tuple[str, str]], section: FineTuningSection
) -> Tokenizer:
    """Return the pre-training's tokenizer, or one trained on these texts, each different one once.

    Raises UserError where the pre-training's is missing or damaged.
    """
    if section.tokenizer is not None:
        return load_tokenizer(child(folder.parent, section.tokenizer) / "tokenizer.json")
    path = folder / "tokenizer.json"
    if not path.exists():
        lines = dict.fromkeys(itertools.chain.from_iterable(texts))
        chosen = itertools.islice(lines, section.tokenizer_lines)
        save_tokenizer(train_wordpiece(chosen, section.vocabulary_size), path)
    return load_tokenizer(path)
