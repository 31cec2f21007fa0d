"""Measure how text is prepared beside `datasets`: `python -m benchmarks.preparation`.

Text is encoded and packed into rows, on one core and on all of them. The peer encodes the same
lines with the same tokenizer by `datasets.map` with as many processes, and packs nothing. Each is
timed in a process of its own, as a person starts it: what one loads does not slow the other.
"""

# ruff: noqa: E402  (--help is answered before numpy is imported)

from __future__ import annotations

import argparse
import itertools
import resource
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from benchmarks.measure import interleaved, measured_on, speed_up, spread, table


def options() -> argparse.Namespace:
    """Return what was typed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, help="a folder of text files, else it is generated")
    parser.add_argument("--smoke", action="store_true", help="use tiny sizes, to see that it runs")
    return parser.parse_args()


if __name__ == "__main__":
    options()  # answers --help before numpy is imported

from sweeper.store.cores import cores
from tasks.lm1b.data import FirstFit, pack
from tasks.synthetic.samples import LM1B, World
from tasks.text.corpus import Corpora, Corpus
from tasks.text.source import SPLITS, find_files
from tasks.text.tokenizer import train_bpe

if TYPE_CHECKING:
    from tokenizers import Tokenizer

LENGTH, VOCABULARY = 256, 32_768


def main() -> None:
    """Measure and print the table."""
    given = options()
    with TemporaryDirectory() as folder:
        root = given.text or Path(folder) / "text"
        if given.text is None:
            LM1B.write(root, 2_000 if given.smoke else 100_000, World(64, 64))
        print(prepared(Path(folder), root, rounds=1 if given.smoke else 5))
        print(f"\n{growth(Path(folder), root, (1, 2) if given.smoke else (10, 50, 250))}")
    print(f"\n{measured_on()}")


def prepared(folder: Path, root: Path, rounds: int) -> str:
    """Time both ways on one core and on all."""
    corpus = Corpora().open({"source": "local", "root": str(root)}, folder)
    tokenizer = train_bpe(itertools.islice(corpus.lines("train"), 100_000), VOCABULARY)
    found = find_files(root)
    ways: dict[str, Callable[[int], float]] = {
        "headroom": partial(ours, folder, corpus, tokenizer),
        "datasets.map": partial(theirs, [found.root / name for name in found.names], tokenizer),
    }
    counts = sorted({1, cores()})
    variants = {
        f"{name}, {count} processes": partial(seconds, way, count)
        for (name, way), count in itertools.product(ways.items(), counts)
    }
    times = interleaved(variants, rounds)
    rows = [
        [name, spread(took), speed_up(times, name, f"datasets.map, {name.partition(', ')[2]}"),
         speed_up(times, name, f"{name.partition(',')[0]}, 1 processes")]
        for name, took in times.items()
    ]  # fmt: skip
    title = f"{found.bytes() / 1e6:.1f} MB of text"
    return table((title, "wall s: median (quartiles)", "beside datasets", "beside one core"), rows)


def growth(folder: Path, root: Path, sizes: Iterable[int]) -> str:
    """Time texts of these sizes in MB; the files are repeated where they are too few."""
    found = find_files(root)
    files = [found.root / name for name in found.names]
    rows = []
    for size in sizes:
        text, left = folder / f"{size} MB", size * 1_000_000
        text.mkdir()
        for number, file in enumerate(itertools.cycle(files)):
            if left <= 0:
                break
            (text / f"{number:06}.txt").write_bytes(file.read_bytes()[:left])
            left -= file.stat().st_size
        corpus = Corpora().open({"source": "local", "root": str(text)}, folder)
        tokenizer = train_bpe(itertools.islice(corpus.lines("train"), 100_000), VOCABULARY)
        one, every = (seconds(partial(ours, folder, corpus, tokenizer), n) for n in (1, cores()))
        own, others = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        peak = max(own.ru_maxrss, others.ru_maxrss) / 1000
        rows.append(
            [f"{size} MB", f"{one:.1f}", f"{one / size:.2f}", f"{every:.1f}", f"{peak:.0f}"]
        )
    head = ("text", "one core, s", "s/MB", f"{cores()} cores, s", "largest process yet, MB")
    return table(head, rows)


def seconds(way: Callable[[int], float], processes: int) -> float:
    """Return the wall seconds of one way, in a process of its own."""
    with ProcessPoolExecutor(1, get_context("fork")) as process:
        return process.submit(way, processes).result()


def ours(folder: Path, corpus: Corpus, tokenizer: Tokenizer, processes: int) -> float:
    """Encode, divide and pack the text; return the wall seconds."""
    begun = time.monotonic()
    with TemporaryDirectory(dir=folder) as into:
        folders = {split: Path(into) / split for split in SPLITS}
        pack(corpus, folders, tokenizer, partial(FirstFit, LENGTH), processes)
        return time.monotonic() - begun


def theirs(files: list[Path], tokenizer: Tokenizer, processes: int) -> float:
    """Encode the text; return the wall seconds, without those of importing `datasets`."""
    import datasets

    def encode(batch: dict[str, list[str]]) -> dict[str, Any]:
        encodings = tokenizer.encode_batch(batch["text"], add_special_tokens=False)
        return {"ids": [encoding.ids for encoding in encodings]}

    datasets.disable_progress_bars()
    begun = time.monotonic()
    with TemporaryDirectory() as cache:
        lines = datasets.load_dataset(
            "text", data_files=[*map(str, files)], cache_dir=cache, split="train"
        )
        lines.map(encode, batched=True, remove_columns=["text"], num_proc=processes)
        return time.monotonic() - begun


if __name__ == "__main__":
    main()
