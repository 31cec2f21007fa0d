"""Tokenizers: the same lines give the same pieces, and pieces give back the text."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sweeper.store.errors import UserError
from tasks.synthetic.families import World
from tasks.synthetic.samples import sentences as generated
from tasks.text.source import read_line
from tasks.text.tokenizer import (
    BERT_MARKS,
    END,
    PAD,
    encode_sentences,
    load_tokenizer,
    save_tokenizer,
    train_bpe,
    train_wordpiece,
)

LINES = list(itertools.islice(generated(World(7, 113)), 600))
BPE = train_bpe(LINES, 499)


@given(st.text(st.characters(exclude_categories=[])))
def test_decoding_gives_back_every_text(text):
    text = read_line(text.encode("utf-8", "surrogatepass")).text
    [pieces] = encode_sentences(BPE, [text])
    assert BPE.decode(pieces[:-1], skip_special_tokens=False) == text


@pytest.mark.parametrize("text", ["⟨pad⟩ ⟨end⟩", "<pad></s>[PAD]", "a\u2028b", "\u202eשלום 🙂"])
def test_no_text_can_write_the_marks(text):
    [pieces] = encode_sentences(train_bpe([text] * 50, 499), [text])
    assert pieces[-1] == END
    assert not {PAD, END} & set(pieces[:-1])


def test_sizes_are_at_most_what_was_asked_for():
    assert BPE.get_vocab_size() == 499
    assert train_bpe(["one short line"], 1000).get_vocab_size() < 300
    assert BPE.id_to_token(PAD) == "⟨pad⟩"
    assert sorted(BPE.get_vocab().values()) == list(range(499))


@pytest.mark.parametrize("size", [0, 257, 65_536])
def test_impossible_sizes_are_refused(size):
    with pytest.raises(UserError, match=f"vocabulary_size={size}"):
        train_bpe(LINES, size)


@pytest.mark.parametrize("train", [train_bpe, train_wordpiece])
def test_training_is_deterministic(train):
    files = {train(iter(LINES), 499).to_str() for _ in range(4)}
    assert len(files) == 1


def test_storing_gives_back_the_same_tokenizer_and_its_hash(tmp_path):
    path = tmp_path / "tokenizer.json"
    sha256 = save_tokenizer(BPE, path)
    assert load_tokenizer(path).to_str() == BPE.to_str()
    assert save_tokenizer(load_tokenizer(path), tmp_path / "again.json") == sha256
    assert not list(tmp_path.glob(".*.tmp"))


@pytest.mark.parametrize("damage", ["absent", "changed"])
def test_a_damaged_tokenizer_is_refused(tmp_path, damage):
    path = tmp_path / "tokenizer.json"
    save_tokenizer(BPE, path)
    if damage == "absent":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1] + b" ")
    with pytest.raises(UserError, match=r"tokenizer\.json"):
        load_tokenizer(path)


def test_wordpiece_is_berts():
    tokenizer = train_wordpiece(["The unhappy bakers ran .", "Happier bakers run ."] * 20, 120)
    assert [tokenizer.token_to_id(mark) for mark in BERT_MARKS] == [0, 1, 2, 3, 4]
    encoding = tokenizer.encode("THE bakers", "ran ☃")
    assert encoding.tokens[0] == "[CLS]"
    assert encoding.tokens[-2:] == ["[UNK]", "[SEP]"]
    assert encoding.tokens.count("[SEP]") == 2
    assert tokenizer.decode(tokenizer.encode("The happier bakers").ids) == "the happier bakers"
