"""Sentences: cut where one ends, nowhere else, and in time that grows with the text alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.text.tokenizer import is_ended, split_sentences


@pytest.mark.parametrize(
    "sentences",
    [
        pytest.param(["It rained.", "We stayed in."], id="full stops"),
        pytest.param(["Why?", "Because!", "So be it…", "Well."], id="other marks"),
        pytest.param(['He said "Hi."', '"Oh?" she said.', "(It is so.)", "Yes."], id="quotes"),
        pytest.param(["Mr. Smith met Dr. J. Doe.", "They spoke."], id="abbreviations"),
        pytest.param(["The U.S. Army came.", "J.R.R. Tolkien wrote."], id="initials"),
        pytest.param(["So said I.", "Then we left."], id="the word I"),
        pytest.param(['"Stop!" he cried.', "It cost 3.50 crowns."], id="marks within a sentence"),
        pytest.param(["He paused... and went on.", "At 5 p.m. sharp."], id="small letters"),
        pytest.param(["Tokenized text .", "Stands like this ."], id="tokenized"),
        pytest.param(["昨日は雨だった。", "家にいた。"], id="no white space"),
    ],
)
def test_a_text_is_cut_into_its_sentences(sentences):
    joint = "" if sentences[0].endswith("。") else "  "
    assert split_sentences(joint.join(sentences)) == sentences


@given(st.text(alphabet="aB.!?。 \t\n\"')”»\u2028\ufffd", max_size=60) | st.text(max_size=60))
def test_nothing_but_white_space_is_lost_and_no_sentence_is_empty(text):
    sentences = split_sentences(text)
    assert all(sentence == sentence.strip() != "" for sentence in sentences)
    assert "".join("".join(sentences).split()) == "".join(text.split())


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


@pytest.mark.parametrize("part", [".", '."', "a.\t", ". ", "。」", "!)", "Mr. "])
def test_a_megabyte_of_marks_takes_linear_time(part):
    # In quadratic time this would take hours: the test would not end.
    text = part * (1_000_000 // len(part)) + "a"
    assert "".join("".join(split_sentences(text)).split()) == "".join(text.split())
    assert not is_ended(text)
