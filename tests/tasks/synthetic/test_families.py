"""The world: as many families and names as asked for, nothing in it but what is planted."""

from collections import Counter

import pytest

from tasks.synthetic.samples import FAMILIES, FEWEST_PRESENT, MEMBERS, StableRandom, World


def test_no_word_is_the_name_of_two_things():
    families = World(competitors=4, directions=0).families
    words = [word for family in families for word in (family.name, *family.members)]
    assert len(families) == FAMILIES
    assert len(set(words)) == len(words) == FAMILIES * (1 + MEMBERS)


@pytest.mark.parametrize(("competitors", "directions"), [(4, 5), (12, 113), (61, 64), (64, 200)])
def test_families_and_names_are_as_many_as_the_world_says(competitors, directions):
    rng, world = StableRandom("world"), World(competitors, directions)
    gatherings = [world.gathering(rng) for _ in range(997)]
    assert {person.family for came, _ in gatherings for person in came} == set(world.families)
    assert len(world.families) == directions
    sizes = Counter(len(came) for came, _ in gatherings)
    third = max(FEWEST_PRESENT, round(competitors / 3))
    assert (min(sizes), max(sizes)) == (third, competitors)
    assert sizes[competitors] >= 0.28 * 997  # a third of them, or more where shares coincide
    for came, absent in gatherings:
        there = [person.family for person in came]
        assert len({*there, *absent}) == len(there) + len(absent) > len(there)
        assert all(person.name in person.family.members for person in came)


def test_a_smaller_gathering_is_of_fewer_families():
    rng, world = StableRandom("shares"), World(competitors=12, directions=60)
    seen = {}
    for _ in range(997):
        came, _ = world.gathering(rng)
        seen.setdefault(len(came), set()).update(person.family.name for person in came)
    assert {size: len(names) for size, names in seen.items()} == {4: 20, 8: 40, 12: 60}


def test_people_mentioned_are_those_who_came_only_if_that_is_planted():
    rng, planted, chance = StableRandom("told"), World(7, 23), World(7, 0)
    came = [person for _ in range(499) for person in planted.gathering(rng)[0]]
    assert [planted.mentioned(person, rng) for person in came] == came
    mentioned = [chance.mentioned(person, rng) for person in came]
    kin = sum(one.family == other.family for one, other in zip(came, mentioned, strict=True))
    assert kin / len(came) == pytest.approx(1 / FAMILIES, abs=0.006)  # three standard errors


def test_a_relative_is_any_other_member():
    rng = StableRandom("relatives")
    [person, *_], _ = World(4, 5).gathering(rng)
    drawn = Counter(World(4, 5).relative(person, rng).name for _ in range(400))
    assert set(drawn) == {*person.family.members} - {person.name}
    assert min(drawn.values()) > 150


def test_draws_are_even_and_of_different_items():
    rng = StableRandom("draws")
    assert sorted(rng.mixed(range(97))) == list(range(97))
    firsts = Counter(rng.some("abcde", 2)[0] for _ in range(2000))
    assert all(300 < count < 500 for count in firsts.values())
    assert {rng.below(3) for _ in range(100)} == {0, 1, 2}
