"""Cuts running text into sentences by a plain rule, the same on every machine."""

from __future__ import annotations

import re

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

    A sentence ends at . ! ? or an ellipsis that white space follows, unless what comes next begins
    with a small letter or the full stop belongs to an abbreviation.
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
