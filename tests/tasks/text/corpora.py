"""Text written for a test, and how it is read back."""

from tasks.data import SPLITS
from tasks.text.corpus import Corpora
from tasks.text.source import Counts

CORPORA = Corpora()
HUB = {"path": "someone/corpus", "name": None, "revision": "abc123"}


def local(root):
    return {"source": "local", "root": str(root)}


def write(root, files):
    for name, lines in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return root


def sentences(count, start=0):
    return [f"sentence {number} , as it stands ." for number in range(start, start + count)]


def everything(splits):
    return [line for lines in splits.values() for line in lines]


def read(data, folder):
    corpus = CORPORA.open(data, folder)
    counts = {split: Counts() for split in SPLITS}
    return {split: list(corpus.lines(split, counts[split])) for split in SPLITS}, counts
