"""The prepared data of pre-training, made once for all its runs: tokenizer, encoded documents."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sweeper.store.errors import UserError
from sweeper.store.files import canonical, make_directory
from tasks.pretraining.documents import FEWEST, Documents, Homes, digest, open_documents
from tasks.pretraining.encoded import ABOUT, FORMAT, encode, publish_about
from tasks.text.corpus import SPLITS
from tasks.text.lines import Counts
from tasks.text.tokenizer import load_tokenizer, save_tokenizer, train_wordpiece


@dataclass(frozen=True)
class DocumentSettings:
    """What shapes the data beside the text itself: keys of the pre-training task."""

    vocabulary_size: int
    tokenizer_lines: int
    documents: str


def folder_name(text_digest: str, settings: DocumentSettings) -> str:
    """Return the name of the folder that holds these documents, encoded."""
    content = {"format": FORMAT, "digest": text_digest, **asdict(settings)}
    key = hashlib.sha256(canonical(content).encode()).hexdigest()
    return f"documents-{key[:16]}"


def prepare(folder: Path, data: Mapping[str, Any], settings: DocumentSettings) -> None:
    """Make whatever `folder` lacks; the caller keeps other processes out of it.

    Raises UserError where the text is missing, too little, or not what the plan was made from.
    """
    if all((folder / split / ABOUT).exists() for split in SPLITS):
        return
    found = digest(data)
    if data.get("digest") not in (None, found):
        raise UserError(
            f"data.digest={data['digest']}: expected the text that was planned with, found "
            f"{found}; plan again, or bring the old text back."
        )
    make_directory(folder)
    documents = open_documents(data, settings.documents, folder / "sample")
    homes = documents.homes()
    path = folder / "tokenizer.json"
    if not path.exists():
        training = (d for split, d in _placed(documents, homes, Counts()) if split == "train")
        sentences = itertools.chain.from_iterable(training)
        lines = itertools.islice(sentences, settings.tokenizer_lines)
        save_tokenizer(train_wordpiece(lines, settings.vocabulary_size), path)
    _encode(folder, documents, homes)


def _encode(folder: Path, documents: Documents, homes: Homes) -> None:
    tokenizer = load_tokenizer(folder / "tokenizer.json")
    counts = Counts()
    placed = _placed(documents, homes, counts)
    totals = encode(placed, tokenizer, {split: folder / split for split in SPLITS})
    lines = {"lines": counts.total, "skipped": counts.skipped, "repaired": counts.repaired}
    for split, total in totals.items():
        if total["documents"] < FEWEST:
            raise UserError(
                f"{documents.name} has {total['documents']} documents in the split {split}; "
                "give it more text."
            )
        about = {"split": split, "vocabulary_size": tokenizer.get_vocab_size(), **total, **lines}
        publish_about(folder / split, about)


def _placed(documents: Documents, homes: Homes, counts: Counts) -> Iterator[tuple[str, list[str]]]:
    """Yield (split, document), the source's own test split last."""
    for document in documents.read(counts=counts):
        yield homes.of(document), document
    if documents.test:
        for document in documents.read(test=True, counts=counts):
            yield "test", document
