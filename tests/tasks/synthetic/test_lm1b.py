"""The generated corpus: always the same, in LM1B's format, and who is told of was there."""

import re
from itertools import islice
from statistics import mean

import pytest

from tasks.synthetic import families, samples
from tasks.synthetic.families import MEMBERS, World
from tasks.synthetic.samples import LM1B
from tasks.text.source import find_files

WORLD = World(competitors=7, directions=23)


def told_of(world, count=499):
    """Who came in each sentence, and the families and names told afterwards."""
    for sentence in islice(samples.sentences(world), count):
        found = re.fullmatch(r"Came ((?:\w+ )+): ((?:\w+ \w+ )+)\.", sentence)
        assert found, sentence
        came, told = (part.split() for part in found.groups())
        yield came, list(zip(told[::2], told[1::2], strict=True))


def test_sentences_are_the_same_everywhere_and_a_longer_corpus_begins_with_a_shorter():
    sentences = list(islice(samples.sentences(WORLD), 1009))
    assert list(islice(samples.sentences(WORLD), 499)) == sentences[:499]
    assert len(set(sentences)) == 1009
    assert sentences[0].startswith(
        "Came Kesi Lile Libo Seku Donu Doku Saki : Babi Kesi Sisa Seku"
    ), (
        "the generated corpus has changed, or differs on this platform: runs that used it are new "
        "runs now; if that is meant, put the new beginning here"
    )


def test_every_name_told_was_there_and_is_the_only_one_of_the_family_before_it():
    members = {family.name: set(family.members) for family in WORLD.families}
    for came, told in told_of(WORLD):
        assert sorted(name for _, name in told) == sorted(2 * came)
        for family, name in told:
            assert members[family] & set(came) == {name}


def test_without_directions_who_is_told_of_has_nothing_to_do_with_who_came():
    world = World(competitors=7, directions=0)
    members = {family.name: family.members for family in world.families}
    there = []
    for came, told in told_of(world):
        assert all(name in members[family] for family, name in told)
        there += [name in came for _, name in told]
    chance = mean(len(came) for came, _ in told_of(world)) / len(world.families) / MEMBERS
    assert mean(there) == pytest.approx(chance, abs=0.005)  # of 5,000 names


def test_the_corpus_is_written_in_lm1bs_layout_once(tmp_path):
    root = tmp_path / "sample"
    LM1B.write(root, 1009, WORLD)
    found = find_files(root)
    assert found.train == (f"{samples.LAYOUT}/{samples.TRAIN_SHARD}",)
    assert found.test == (f"{samples.LAYOUT}/{samples.TEST_SHARD}",)
    lines = {name: (root / name).read_text().splitlines() for name in found.names}
    written = [line for shard in lines.values() for line in shard]
    assert sorted(written) == sorted(islice(samples.sentences(WORLD), 1009))
    assert len(lines[found.test[0]]) == 1009 // samples.HELD_OUT_EVERY
    times = [(root / name).stat().st_mtime_ns for name in found.names]
    LM1B.write(root, 1009, WORLD)
    assert times == [(root / name).stat().st_mtime_ns for name in found.names]


def test_another_length_world_or_generator_is_another_corpus(monkeypatch):
    assert LM1B.digest(1000, WORLD) == LM1B.digest(1000, World(7, 23))
    hashes = [LM1B.digest(1000, WORLD), LM1B.digest(1001, WORLD)]
    hashes += [LM1B.digest(1000, World(8, 23)), LM1B.digest(1000, World(7, 29))]
    monkeypatch.setattr(families, "SHARES", (1,))
    hashes.append(LM1B.digest(1000, WORLD))
    assert len(set(hashes)) == 5
