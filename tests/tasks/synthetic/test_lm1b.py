"""The generated corpus: always the same, in LM1B's format, and what is asked was said before."""

import re
from collections import Counter, defaultdict
from itertools import pairwise

import pytest

from tasks.synthetic import lm1b, sentence_templates
from tasks.synthetic.lm1b import generate, generator_hash, write_sample
from tasks.synthetic.sentence_templates import TEMPLATES, series
from tasks.synthetic.world_facts import (
    MATERIAL_OF_THING,
    PEOPLE,
    TOOLS,
    TRADE_OF_TOOL,
    VERB_OF_GOOD,
    StableRandom,
    draw_scene,
    hand_out,
)
from tasks.text.files import find_files

PERSON = {person.name: person for person in PEOPLE}


def told(template, count=211):
    rng = StableRandom(f"test of {template.__name__}")
    return [template(rng) for _ in range(count)]


def halves(sentence):
    """Words before and after the first semicolon."""
    stated, asked = sentence.split(" ; ", 1)
    return stated.split(), asked.split()


def people(words):
    return [word for word in words if word in PERSON]


def test_sentences_are_the_same_everywhere_and_a_longer_corpus_begins_with_a_shorter():
    sentences = list(generate(1009))
    assert list(generate(499)) == sentences[:499]
    assert len(set(sentences)) == 1009
    assert sentences[0].startswith("the captain gave Ada bread , Faye silk , Falk rye and Cora"), (
        "the generated corpus has changed, or differs on this platform: runs that used it are new "
        "runs now; if that is meant, put the new beginning here"
    )


def test_every_sentence_is_tokenised_as_lm1b_is():
    for sentence in generate(1009):
        assert re.fullmatch(r"(([A-Za-z]+|[,;]) )+\.", sentence)
        assert 15 <= len(sentence.split()) <= 55


def test_a_met_person_is_found_by_trade_or_town_and_by_nothing_near():
    followers = defaultdict(set)
    for sentence in told(sentence_templates.meeting):
        stated, asked = halves(sentence)
        assert set(people(stated)) == set(people(asked))
        for before, word in pairwise(asked):
            if word in PERSON and before != "came":
                followers[before].add(word)
                met = [PERSON[name] for name in people(stated)]
                fits = [person.name for person in met if before in (person.trade, person.town)]
                assert fits == [word]
    # The word before the name leaves several names open: only the sentence's beginning decides.
    assert min(len(names) for names in followers.values()) >= 3


def test_a_tool_is_taken_by_whoever_uses_it():
    for sentence in told(sentence_templates.workshop):
        stated, asked = halves(sentence)
        tools = [word for word in asked if word in TOOLS]
        assert Counter(tools) == Counter(word for word in stated if word in TOOLS)
        assert [word for word in asked if word in TRADE_OF_TOOL.values()] == [
            TRADE_OF_TOOL[tool] for tool in tools
        ]


def test_a_good_is_used_as_such_goods_are_by_whoever_got_it():
    for sentence in told(sentence_templates.feast):
        stated, asked = halves(sentence)
        got = dict(re.findall(r"([A-Z]\w+) (\w+)", " ".join(stated)))
        uses = re.findall(r"(\w+) (\w+) (his|her) (\w+)", " ".join(asked))
        assert {name: good for name, _, _, good in uses} == got
        for name, verb, possessive, good in uses:
            assert verb == VERB_OF_GOOD[good]
            assert possessive == PERSON[name].possessive


def test_goods_and_towns_are_asked_back_as_they_were_said():
    for template, values in (
        (sentence_templates.market, set(VERB_OF_GOOD)),
        (sentence_templates.journey, None),
    ):
        for sentence in told(template):
            pairs = []
            for words in halves(sentence):
                towns = {person.town for person in PEOPLE}
                names = [word for word in words if word in PERSON or word in TRADE_OF_TOOL.values()]
                things = [word for word in words if word in (values or towns)]
                pairs.append(list(zip(names, things, strict=True)))
            said, asked = (dict(half) for half in pairs)
            for name, thing in asked.items():
                who = [n for n in said if n == name or PERSON[n].trade == name]
                assert [said[n] for n in who] == [thing]


def test_who_is_given_a_thing_has_it():
    for sentence in told(sentence_templates.present):
        stated, asked = halves(sentence)
        giver, receiver, again = people(asked)
        owned = dict(re.findall(r"(\w+) of \w+(?: had)? an? (\w+ \w+)", " ".join(stated)))
        materials = [thing.split() for thing in owned.values()]
        assert all(MATERIAL_OF_THING[thing] == material for material, thing in materials)
        things = [owned[name].split()[1] for name in (giver, receiver, giver)]
        assert [word for word in asked if word in MATERIAL_OF_THING] == [
            things[0],
            things[1],
            things[0],
        ]
        assert again == receiver


def test_every_way_of_telling_appears_as_often_as_it_is_listed():
    rng, drawn = StableRandom("shares"), Counter()
    for _ in range(5000):
        drawn[rng.pick(TEMPLATES)] += 1
    for template, count in Counter(TEMPLATES).items():
        assert drawn[template] / 5000 == pytest.approx(count / len(TEMPLATES), abs=0.03)


def test_series_reads_as_english():
    assert [series("abc"[:count]) for count in (1, 2, 3)] == ["a", "a and b", "a , b and c"]


def test_no_two_people_share_trade_and_town():
    assert len({(person.trade, person.town) for person in PEOPLE}) == len(PEOPLE) == len(PERSON)
    assert len({person.trade for person in PEOPLE}) > 7
    for number in range(100):
        cast = draw_scene(StableRandom(number), 5).cast
        assert len({person.trade for person in cast}) == len({person.town for person in cast}) == 5


def test_a_gift_changes_who_holds_what():
    rng = StableRandom("gift")
    scene = draw_scene(rng, 3)
    hand_out(scene, rng, ["lamp", "rope", "bell"])
    giver, receiver, other = scene.cast
    [item] = scene.holds[giver]
    kept = list(scene.holds[receiver])
    scene.give(giver, receiver, item)
    assert scene.holds[giver] == []
    assert scene.holds[receiver] == [*kept, item]
    assert len(scene.holds[other]) == 1
    with pytest.raises(ValueError, match="not in list"):
        scene.give(giver, receiver, item)


def test_draws_are_even_and_of_different_items():
    rng = StableRandom("draws")
    assert sorted(rng.mixed(range(97))) == list(range(97))
    firsts = Counter(rng.some("abcde", 2)[0] for _ in range(2000))
    assert all(300 < count < 500 for count in firsts.values())
    assert {rng.below(3) for _ in range(100)} == {0, 1, 2}


def test_the_corpus_is_written_in_lm1bs_layout_once(tmp_path):
    root = write_sample(tmp_path / "sample", 1009)
    found = find_files(root)
    assert found.train == (f"{lm1b.LAYOUT}/{lm1b.TRAIN_SHARD}",)
    assert found.test == (f"{lm1b.LAYOUT}/{lm1b.TEST_SHARD}",)
    lines = {name: (root / name).read_text().splitlines() for name in found.names}
    assert sorted([line for shard in lines.values() for line in shard]) == sorted(generate(1009))
    assert len(lines[found.test[0]]) == 1009 // lm1b.TEST_EVERY
    times = [(root / name).stat().st_mtime_ns for name in found.names]
    assert write_sample(root, 1009) == root
    assert times == [(root / name).stat().st_mtime_ns for name in found.names]


def test_another_generator_or_length_is_another_corpus(monkeypatch):
    hashes = [generator_hash(1000), generator_hash(1001)]
    assert hashes == [generator_hash(1000), generator_hash(1001)]
    monkeypatch.setattr(lm1b, "TEMPLATES", TEMPLATES[1:])
    hashes.append(generator_hash(1000))
    assert len(set(hashes)) == 3
