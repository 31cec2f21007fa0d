"""The embedded stories: always the same, in BERT's format, and true to the world."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tasks.synthetic.documents import FILE, generate, generator_hash, stories, write_sample
from tasks.synthetic.world_facts import MATERIAL_OF_THING, PEOPLE, VERB_OF_GOOD


def test_a_story_is_the_same_for_its_number() -> None:
    assert [generate(number) for number in range(50)] == [generate(number) for number in range(50)]
    assert len({tuple(generate(number)) for number in range(500)}) == 500


def test_there_are_as_many_sentences_as_asked_and_a_longer_text_begins_with_a_shorter() -> None:
    short, long = list(stories(101)), list(stories(1009))
    assert (sum(map(len, short)), sum(map(len, long))) == (101, 1009)
    assert long[: len(short) - 1] == short[:-1]
    assert generator_hash(101) != generator_hash(1009)


def test_it_is_written_in_berts_format_once(tmp_path: Path) -> None:
    folder = write_sample(tmp_path / "sample", 307)
    text = (folder / FILE).read_text()
    assert [block.split("\n") for block in text.strip().split("\n\n")] == list(stories(307))
    stamp = (folder / FILE).stat().st_mtime_ns
    write_sample(tmp_path / "sample", 307)
    assert (folder / FILE).stat().st_mtime_ns == stamp


@pytest.mark.parametrize("number", range(0, 200, 7))
def test_who_has_what_follows_from_what_was_told(number: int) -> None:
    town = {person.name: person.town for person in PEOPLE}
    holder: dict[str, str] = {}
    for sentence in generate(number)[1:]:
        if had := re.fullmatch(r"(\w+) of (\w+) had the (\w+) (\w+)\.", sentence):
            name, place, material, thing = had.groups()
            assert (town[name], MATERIAL_OF_THING[thing]) == (place, material)
            holder[thing] = name
        elif gift := re.fullmatch(r"(\w+) gave the (\w+) (\w+) to (\w+)\.", sentence):
            giver, material, thing, receiver = gift.groups()
            assert (holder[thing], MATERIAL_OF_THING[thing]) == (giver, material)
            holder[thing] = receiver
        elif now := re.fullmatch(r"Now (\w+) of (\w+) had the (\w+)\.", sentence):
            name, place, thing = now.groups()
            assert (holder[thing], town[name]) == (name, place)
        elif deed := re.fullmatch(r"(\w+) (\w+) (\w+) there\.", sentence):
            name, verb, good = deed.groups()
            assert VERB_OF_GOOD[good] == verb
        else:
            spoke = re.fullmatch(r"Then (\w+) of (\w+) spoke of (\w+)\.", sentence)
            assert spoke
            assert spoke.groups() == (name, town[name], good)
