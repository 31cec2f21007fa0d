"""Tests that text is cut into sentences and tokens, and that decoding the tokens restores it."""

import itertools
from types import SimpleNamespace

import pytest

from tasks.synthetic.samples import World
from tasks.synthetic.samples import sentences as generated
from tasks.text.source import read_line
from tasks.text.tokenizer import (
    BERT_MARKS,
    END,
    PAD,
    is_ended,
    pieces_of,
    split_sentences,
    tokenizer_at,
    train_bpe,
    train_wordpiece,
)
from tests.refusals import refusal
from tests.tasks.text.test_source import any_text


@pytest.mark.parametrize(
    "sentences",
    [
        ["It rained.", "We stayed in."],  # full stops
        ["Why?", "Because!", "So be it…", "Well."],  # other marks
        ['He said "Hi."', '"Oh?" she said.', "(It is so.)", "Yes."],  # quotes
        ["Mr. Smith met Dr. J. Doe.", "They spoke."],  # abbreviations
        ["The U.S. Army came.", "J.R.R. Tolkien wrote."],  # initials
        ["So said I.", "Then we left."],  # the word I
        ['"Stop!" he cried.', "It cost 3.50 crowns."],  # marks within a sentence
        ["He paused... and went on.", "At 5 p.m. sharp."],  # small letters
        ["Tokenized text .", "Stands like this ."],  # tokenized
        ["昨日は雨だった。", "家にいた。"],  # no white space
    ],
)
def test_a_text_is_cut_into_its_sentences(sentences):
    joint = "" if sentences[0].endswith("。") else "  "
    assert split_sentences(joint.join(sentences)) == sentences


@pytest.mark.parametrize(
    ("line", "ended"),
    [
        ("It rained.", True),
        ('He said "no!"', True),
        ("as follows:", True),
        ("and then he", False),
        ("he met Mr.", False),
        ("", False),
    ],
)
def test_a_line_is_ended_by_a_mark_that_is_no_abbreviations(line, ended):
    assert is_ended(line) is ended


@pytest.mark.parametrize("part", [".", '."', ". ", "。」", "Mr. "])
def test_a_long_row_of_marks_takes_linear_time(part):
    # Quadratic time would take an hour.
    text = part * (300_007 // len(part)) + "a"
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())
    assert not is_ended(text)


LINES = list(itertools.islice(generated(World(7, 113)), 600))
BPE = train_bpe(LINES, 499)


@any_text
def test_decoding_gives_back_every_text(text):
    text = read_line(text.encode("utf-8", "surrogatepass")).text
    assert BPE.decode(pieces_of(BPE, [text])[0], skip_special_tokens=False) == text


@pytest.mark.parametrize("text", ["⟨pad⟩ ⟨end⟩", "<pad></s>[PAD]"])
def test_no_text_can_write_the_marks(text):
    [ids] = pieces_of(train_bpe([text] * 50, 499), [text])
    assert not {PAD, END} & {*ids}


def test_a_vocabulary_without_room_for_the_characters_is_refused():
    assert train_wordpiece(["abc"], 11).get_vocab_size() == 11
    assert "vocabulary_size=10: expected at least 11" in refusal(
        train_wordpiece, ["abc"], 10
    )


def test_a_special_token_that_a_text_spells_out_is_text(tmp_path):
    section = SimpleNamespace(vocabulary_size=40, tokenizer_lines=9)
    tokenizer = tokenizer_at(tmp_path, train_wordpiece, ["a cat [SEP]"] * 9, section)
    [ids] = pieces_of(tokenizer, ["cat [SEP]"])
    assert not {*ids} & {*range(len(BERT_MARKS))} - {tokenizer.token_to_id("[UNK]")}


def test_wordpiece_is_berts():
    tokenizer = train_wordpiece(
        ["The unhappy bakers ran .", "Happier bakers run ."] * 20, 120
    )
    assert [tokenizer.token_to_id(mark) for mark in BERT_MARKS] == [0, 1, 2, 3, 4]
    encoding = tokenizer.encode("THE bakers", "ran ☃")
    assert encoding.tokens[0] == "[CLS]"
    assert encoding.tokens[-2:] == ["[UNK]", "[SEP]"]
    assert encoding.tokens.count("[SEP]") == 2
    assert (
        tokenizer.decode(tokenizer.encode("The happier bakers").ids)
        == "the happier bakers"
    )
