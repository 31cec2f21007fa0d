"""Sources of text: files, the Hugging Face hub, or generated text (tasks/synthetic).

Lines that cannot be used are skipped. In all other lines, invalid bytes are replaced.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from sweeper.store.errors import NOTE, UserError, invalid_value, sanitize
from sweeper.store.numbers import plural
from tasks.synthetic.samples import Sample, World

Item = TypeVar("Item")

# Skip lines with more bytes than this. They probably come from a file without line ends.
LINE_LIMIT = 1_000_000
# Skip lines with a word of more letters than this. The time to train a tokenizer grows with the
# square of the length of a word.
WORD_LIMIT = 20_000
_WORD = re.compile(r"\w+|\s+|[^\w\s]+")
REPLACEMENT = "\ufffd"
NOT_UTF8 = "contained invalid UTF-8, which was replaced; save the text as UTF-8"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
NAMED = 3  # a note names at most this many files
_CONTROL = {chr(code) for code in range(32)} - set("\t\n\f\r")
# `note_repeats` prints a note if more than this share of a split is repeated. A few repeated lines,
# such as headings, are normal.
LEAST_REPEATED = 0.01
SAMPLE = 8192  # check this many bytes of a file to see whether it is text


SPLITS = ("train", "validation", "test")


@dataclass
class Counts:
    """The numbers of kept and skipped lines.

    Attributes:
        total: the number of all lines.
        skipped: the number of skipped lines for each value of `Line.skip`.
        repaired: the number of kept lines for each value in `Line.repairs`.
    """

    total: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    repaired: Counter[str] = field(default_factory=Counter)

    @property
    def kept(self) -> int:
        return self.total - self.skipped.total()

    def add(self, line: Line) -> bool:
        """Count a line. Return True if the line is kept, and False if it is skipped."""
        self.total += 1
        if line.skip:
            self.skipped[line.skip] += 1
            return False
        self.repaired.update(line.repairs)
        return True


def note(name: object, said: str) -> None:
    """Print a note about the text `name` to stderr. The sweep shows it to the user."""
    print(f"{NOTE}{name}: {said}", file=sys.stderr)


def note_repeats(name: str, kind: str, train: ArrayLike, test: ArrayLike) -> None:
    """Print a note if many test items are also training items, or if many training items repeat.

    Args:
        name: the name of the text.
        kind: the singular noun for an item in the note, such as "line".
        train: the hashes of the training items.
        test: the hashes of the test items.
    """
    train_N, test_N = np.asarray(train), np.asarray(test)
    different = np.unique(train_N)
    leaked = int(np.isin(test_N, different).sum())
    repeated = len(train_N) - len(different)
    in_training = (
        "are also in the training split, so test scores are too good; remove them "
        "from the training data"
    )

    for count, total, split, said in (
        (leaked, len(test_N), "test", in_training),
        (repeated, len(train_N), "training", "repeat an earlier one; remove them"),
    ):
        if count > LEAST_REPEATED * total:
            of = f"the {plural(total, kind)} of the {split} split"
            note(name, f"{count / total:.1%} of {of} ({count:,}) {said}.")


def note_lines(name: str, *counts: Counts) -> None:
    """Print notes on the numbers of lines that were too long or not UTF-8, if there are any."""
    too_long = sum(one.skipped["too_long"] for one in counts)
    if too_long:
        limits = f"over {LINE_LIMIT:,} bytes, or a word of over {WORD_LIMIT:,} letters"
        said = f"{plural(too_long, 'line')} skipped ({limits}); break long lines."
        note(name, said)
    damaged = sum(one.repaired["invalid_utf8"] for one in counts)
    if damaged:
        note(name, f"{plural(damaged, 'line')} {NOT_UTF8}.")


@dataclass(frozen=True, slots=True)
class Line:
    """A line of text.

    Attributes:
        text: the line without surrounding white space, or "" if the line is skipped.
        skip: the reason to skip the line, "empty", "markup" or "too_long". If it is "", the line is
            kept.
        repairs: why characters were replaced, "invalid_utf8" or "nul".
    """

    text: str
    skip: str = ""
    repairs: tuple[str, ...] = ()


def read_line(raw: bytes | None) -> Line:
    """Decode a line. Replace NUL and bytes that are not UTF-8.

    Args:
        raw: the bytes of the line, or None for a line longer than LINE_LIMIT.
    """
    if raw is None or len(raw) > LINE_LIMIT:
        return Line("", "too_long")
    repairs: tuple[str, ...] = ()
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text, repairs = raw.decode(errors="replace"), ("invalid_utf8",)

    if "\0" in text:
        text, repairs = text.replace("\0", REPLACEMENT), (*repairs, "nul")
    text = text.strip()
    if not text:
        return Line("", "empty")
    # WikiExtractor puts each article between the lines <doc id=...> and </doc>.
    if text.startswith("<doc ") or text == "</doc>":
        return Line("", "markup")
    if (
        len(text) > WORD_LIMIT
        and max(len(word[0]) for word in _WORD.finditer(text)) > WORD_LIMIT
    ):
        return Line("", "too_long")
    return Line(text, "", repairs)


def check_text(path: Path) -> None:
    """Raise UserError if the beginning of a file is not text in UTF-8.

    Accept up to 2 % invalid characters, because a text may have a few damaged lines.
    """
    with _readable(path) as file:
        start = file.read(SAMPLE)
    if start.startswith(UTF16_MARKS):
        raise UserError(f"{path} is UTF-16: expected UTF-8; save it as UTF-8.")
    text = start.decode(errors="replace")
    odd = sum(letter == REPLACEMENT or letter in _CONTROL for letter in text)
    # French and Spanish text in Latin-1 has more than 2 % invalid characters.
    if odd > len(text) / 50:
        raise UserError(
            f"{path} is not text in UTF-8: {odd} of its first {len(text)} characters are invalid; "
            "save it as UTF-8, or remove it from the folder."
        )


def raw_lines_of_file(path: Path) -> Iterator[bytes | None]:
    """Yield each line of a text file without its line end, or None if it exceeds LINE_LIMIT."""
    with path.open("rb") as file:
        if file.read(len(BYTE_ORDER_MARK)) != BYTE_ORDER_MARK:
            file.seek(0)
        while raw := file.readline(LINE_LIMIT + 2):  # room for \r\n
            if raw.endswith(b"\n") or len(raw) <= LINE_LIMIT:
                yield raw.rstrip(b"\r\n")
                continue
            while raw and not raw.endswith(b"\n"):
                raw = file.readline(LINE_LIMIT)
            yield None


def batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """Yield lists of `size` items, in order. The last list may be shorter."""
    iterator = iter(items)
    while batch := list(itertools.islice(iterator, size)):
        yield batch


TRAIN_SHARD = re.compile(r"news\.en-\d{5}-of-\d{5}")
TEST_SHARD = re.compile(r"news\.en\.heldout-\d{5}-of-\d{5}")
# The test files that version 0.1.0 recognised: test.<suffix>, and any file below a folder test.
_PLAIN_TEST = re.compile(r"(.*/)?test(\.[^/]*|/.*)?")


def _split_named(*words: str) -> re.Pattern[str]:
    """Return a pattern for paths that contain one of `words` as a whole word, as in "my-test.txt".

    Digits and punctuation separate words. The library `datasets` finds the files of a split by the
    same rules.
    """
    separator = r"[/\-._ \d]"
    return re.compile(rf"(?i)(.*{separator})?({'|'.join(words)})({separator}.*)?")


OWN_TEST = _split_named("test", "testing", "eval", "evaluation")
_OWN_VALIDATION = _split_named("validation", "valid", "dev", "val")
TEXT_SUFFIXES = ("", ".text", ".tokens", ".txt", ".utf8")
NOT_CONTENT = ("changelog", "copying", "license", "licence", "notice", "readme")


@dataclass(frozen=True)
class TextFiles:
    """The files of a text, in the order in which they are read. Their names are relative to `root`.

    Attributes:
        train: the files with training text.
        test: the files of the text's test split. If there are none, a part of the training text
            becomes the test split.
        left_out: the files that are not read, without hidden files and files such as README.
    """

    root: Path
    train: tuple[str, ...]
    test: tuple[str, ...]
    left_out: tuple[str, ...] = ()

    @property
    def names(self) -> list[str]:
        """The names of all training and test files, sorted."""
        return sorted((*self.train, *self.test))

    def bytes(self) -> int:
        return sum((self.root / name).stat().st_size for name in self.names)


def find_files(root: Path) -> TextFiles:
    """Return the text files at `root`, sorted by their relative names.

    Text files are all files with one of TEXT_SUFFIXES and all shards of LM1B. Hidden files and
    files such as README or LICENSE are not text files.

    Args:
        root: a folder, or a single text file.

    Raises:
        UserError: there is no text, a folder is a link, or a file is a link to a file outside the
            folder.
    """
    if root.is_dir():
        found = _divided(root)
    elif root.is_file():
        found = TextFiles(root.parent, (root.name,), ())
    else:
        expected = "a folder of text files, or one file"
        remedy = "create it, or correct the path"
        raise invalid_value("data.root", root, expected, remedy)

    top = found.root.resolve()
    for name in found.names:
        if not (found.root / name).resolve().is_relative_to(top):
            raise _linked(root, name)
    if not found.bytes():
        suffixes = ", ".join(filter(None, TEXT_SUFFIXES))
        expected = f"files with text, ending in {suffixes}, or without a suffix"
        raise invalid_value("data.root", root, expected, "add such files")
    return found


def _divided(root: Path) -> TextFiles:
    """Divide the files of a folder into training files, test files and files that are left out.

    If the folder has training shards and held-out shards of LM1B, these are the training and test
    files. In any other folder, a file is a test file or a validation file if its path says so (see
    OWN_TEST and _OWN_VALIDATION). All other text files are training files. Validation files are
    left out, because `Corpus` makes the validation split from training lines. If there are no
    training files, the validation files become the training files. If there are none of these
    either, the test files do.
    """
    every = [name for name in visible(root) if (root / name).is_file()]
    names = [name for name in every if _is_text(name)]
    train = [name for name in names if TRAIN_SHARD.fullmatch(Path(name).name)]
    test = [name for name in names if TEST_SHARD.fullmatch(Path(name).name)]
    if not (train and test):
        test = [name for name in names if OWN_TEST.fullmatch(name)]
        others = [name for name in names if name not in set(test)]
        learned = [name for name in others if not _OWN_VALIDATION.fullmatch(name)]
        train = learned or others
    if not train:  # all text files are test files, so train on them
        train, test = test, []

    read = {*train, *test}
    left_out = [name for name in every if name not in read and not _is_about(name)]
    return TextFiles(root, tuple(train), tuple(test), tuple(left_out))


def _linked(root: Path, name: str) -> UserError:
    real = sanitize((root / name).resolve())
    expected = f"only files inside the folder, but {name} is a link to {real}"
    remedy = "copy the folder with `cp -rL`, which follows links"
    return invalid_value("data.root", root, expected, remedy)


def _is_text(name: str) -> bool:
    path = Path(name)
    if TRAIN_SHARD.fullmatch(path.name) or TEST_SHARD.fullmatch(path.name):
        return True
    return not _is_about(name) and path.suffix.lower() in TEXT_SUFFIXES


def _is_about(name: str) -> bool:
    return re.split(r"[._-]", Path(name).name.lower())[0] in NOT_CONTENT


def note_files(files: TextFiles) -> None:
    """Print notes that name the files that are left out, and the files with equal content."""
    if files.left_out:
        count, listed = plural(len(files.left_out), "file"), _listed(files.left_out)
        remedy = "if a file contains text, unpack or rename it"
        note(files.root, f"{count} not read: {listed}; {remedy}.")
    if equal := _equal_files(files):
        listed = _listed(equal)
        note(files.root, f"files with equal content: {listed}; keep one of each.")


def _listed(names: Sequence[str]) -> str:
    """Return a list for a message, such as "a.txt, b.txt, c.txt and 2 more"."""
    more = len(names) - NAMED
    listed = sanitize(", ".join(names[:NAMED]), 1000)
    return f"{listed} and {more} more" if more > 0 else listed


def _equal_files(files: TextFiles) -> tuple[str, ...]:
    digests = {name: _sha256(files.root / name) for name in files.names}
    counts = Counter(digests.values())
    return tuple(name for name, digest in digests.items() if counts[digest] > 1)


def visible(root: Path) -> list[str]:
    """Return the relative names of all files below a folder, sorted, without hidden files.

    Raises:
        UserError: a folder below `root` is a link. Its files would be missing, because links are
            not followed.
    """
    names = []
    # os.walk does not follow links to folders, so it cannot loop.
    for folder, below, files in os.walk(root):
        below[:] = [name for name in below if not name.startswith((".", "__MACOSX"))]
        for name in below:
            if (path := Path(folder) / name).is_symlink():
                raise _linked(root, path.relative_to(root).as_posix())
        visible = (Path(folder) / name for name in files if not name.startswith("."))
        names += [path.relative_to(root).as_posix() for path in visible]
    return sorted(names)


def hash_files(files: TextFiles) -> str:
    """Return the sha256 of the names and contents of the files, sorted by name.

    Raises:
        UserError: a file cannot be read, or is not text.
    """
    # If _PLAIN_TEST does not match a test file, version 0.1.0 used the file for training. Mark such
    # files, so that the digest differs from the one that 0.1.0 computed for the same folder.
    own = [name for name in files.test if OWN_TEST.fullmatch(name)]
    marked = {name for name in own if not _PLAIN_TEST.fullmatch(name)}
    for name in files.names:
        check_text(files.root / name)
    return _hash(files.root, files.names, marked)


def _hash(root: Path, names: Iterable[str], marked: Collection[str] = ()) -> str:
    """Return the sha256 of files' names and contents, with a mark after each name in `marked`."""
    total = hashlib.sha256()
    for name in names:
        mark = " test" if name in marked else ""
        line = f"{_sha256(root / name)} {name}{mark}\n"
        total.update(line.encode("utf-8", "surrogateescape"))
    return total.hexdigest()


def _sha256(path: Path) -> str:
    with _readable(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _readable(path: Path) -> Iterator[io.BufferedReader]:
    """Open a file. Raise UserError if it cannot be opened or read."""
    try:
        with path.open("rb") as file:
            yield file
    except OSError as error:
        raise UserError(
            f"{path} cannot be read ({error.strerror}); make it readable."
        ) from error


COLUMN = "text"

Config = Mapping[str, Any]
"""The config's section `data`, or its section `hub`."""


def load_splits(
    hub: Config,
    required: Sequence[str] = ("train",),
    columns: Sequence[str] = (COLUMN,),
) -> dict[str, Any]:
    """Return a dict from names to the splits of a data set on the Hugging Face hub.

    Args:
        hub: the config's section `data.hub`, with the arguments path, name and revision of
            `datasets.load_dataset`.
        required: the names of the splits that the data set must have.
        columns: the names of the columns that every split must have.

    Raises:
        UserError: the data set cannot be loaded, or lacks a required split or column.
    """
    import datasets  # imported here because it takes seconds

    failures = (OSError, ValueError, RuntimeError, datasets.exceptions.DatasetsError)
    try:
        options = {key: hub.get(key) for key in ("name", "revision")}
        splits = datasets.load_dataset(hub["path"], **options)
    except failures as error:
        cause = next(iter(str(error).splitlines()), type(error).__name__)
        raise UserError(
            f"data.hub={name_of(hub)} cannot be loaded ({cause}); check the name and the network."
        ) from error

    missing = [f"split named {name}" for name in required if name not in splits]
    for split in splits.values():
        absent = [column for column in columns if column not in split.column_names]
        missing += [f"column named {column}" for column in absent]
    if missing:
        expected, remedy = f"a data set with a {missing[0]}", "choose another data set"
        raise invalid_value("data.hub", name_of(hub), expected, remedy)
    return dict(splits)


def raw_lines_of_rows(split: Any) -> Iterator[list[bytes]]:
    """Yield the lines of each row of a split on the hub, as a list of bytes."""
    for batch in split.iter(batch_size=1000):
        for text in batch[COLUMN]:
            yield (text or "").encode("utf-8", "surrogatepass").split(b"\n")


def name_of(hub: Config) -> str:
    """Return the name of a data set on the hub, such as "wikitext/wikitext-2-v1@main"."""
    name = f"/{hub['name']}" if hub.get("name") else ""
    return f"{hub['path']}{name}@{hub.get('revision') or 'main'}"


Text = Iterable[bytes | None]
"""The raw lines of a file, or of a row on the hub. A line that is too long is None."""
Texts = Callable[[], Iterator[Text]]
"""A function that yields all texts of a split, in a fixed order."""


class Source:
    """A source of the text that the config's section `data` chooses.

    Every method raises UserError if the text is missing.
    """

    sample: ClassVar[Sample]
    """The generator of the text for data=sample."""

    def files(self, root: Path) -> TextFiles:
        """Return the files of the text at `root`."""
        return find_files(root)

    def digest(self, data: Config) -> str:
        """Return a digest that changes if the text changes.

        - The digest of local text is a hash of all files.
        - The digest of generated text is a hash of its beginning.
        - The digest of a data set on the hub is its name and its revision. If data.hub.path is a
          local folder, a hash of the folder's files follows.
        """
        if data["source"] == "hub":
            folder = Path(data["hub"]["path"])
            is_local = folder.is_dir()
            own = f":sha256:{_hash(folder, visible(folder))}" if is_local else ""
            return f"hub:{name_of(data['hub'])}{own}"
        if data["source"] == "sample":
            return self.sample.digest(data["sentences"], World.of(data))
        return f"sha256:{hash_files(self.files(_local(data)))}"

    def describe(self, data: Config) -> str:
        """Return a one-line description of the text."""
        if data["source"] == "hub":
            return f"{name_of(data['hub'])} on the Hugging Face hub"
        if data["source"] == "sample":
            return self.sample.described(data["sentences"], World.of(data))
        found = self.files(_local(data))
        count = plural(len(found.names), "text file")
        test = f" (test split: {plural(len(found.test), 'file')})" if found.test else ""
        size = f"{found.bytes() / 1e6:,.1f} MB"
        return f"{count}{test}, {size}, folder {found.root.name}"

    def root(self, data: Config, folder: Path) -> Path:
        """Return the folder or the file of a local text, or the folder of a generated text.

        Generated text is first written to `folder`.
        """
        if data["source"] == "local":
            return _local(data)
        self.sample.write(folder, data["sentences"], World.of(data))
        return folder

    def texts(self, data: Config, folder: Path) -> tuple[str, Texts, Texts | None]:
        """Return the name of the text, and functions that yield its training and its test texts.

        The last element is None if the text has no test split. Generated text is first written to
        `folder`.
        """
        if data["source"] == "hub":
            splits = load_splits(data["hub"])
            rows = {
                name: partial(raw_lines_of_rows, split)
                for name, split in splits.items()
            }
            return name_of(data["hub"]), rows["train"], rows.get("test")

        root = self.root(data, folder)
        found = self.files(root)
        note_files(found)
        test = partial(_read, found.root, found.test) if found.test else None
        return str(root), partial(_read, found.root, found.train), test


def _local(data: Config) -> Path:
    return Path(data["root"]).expanduser()


def _read(root: Path, names: tuple[str, ...]) -> Iterator[Text]:
    for name in names:
        yield raw_lines_of_file(root / name)
