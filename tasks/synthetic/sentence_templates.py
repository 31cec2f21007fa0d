"""Tells scenes of the world in sentences whose later words follow from their earlier ones.

Every sentence states some things and then asks them back in another order, so that a reader who
attends to the right earlier word knows the next one. What links the two differs in difficulty: a
fact of the world (who is a smith, what a smith uses, what is eaten), a fact of this sentence (who
bought what), or both (where the smith went).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tasks.synthetic.world_facts import (
    GOODS,
    MATERIAL_OF_THING,
    THINGS,
    TOOLS_OF_TRADE,
    TRADE_OF_TOOL,
    VERB_OF_GOOD,
    Person,
    StableRandom,
    draw_scene,
    hand_out,
    send_off,
)

Template = Callable[[StableRandom], str]

SIZES = (3, 3, 3, 4, 4, 4, 5)  # people or things in a sentence


def meeting(rng: StableRandom) -> str:
    """Who met, then the same people by trade or town: a fact of the world finds each name."""
    scene = draw_scene(rng, rng.pick(SIZES))
    ways = rng.mixed((_by_trade, _by_town))
    if len(scene.cast) == min(SIZES) and rng.below(2) == 0:
        met, asked = [person.name for person in scene.cast], ways
    elif rng.below(3):
        met, asked = [person.name for person in scene.cast], ways[:1]
    elif ways[0] is _by_trade:
        met, asked = [f"{person.name} of {person.town}" for person in scene.cast], ways[:1]
    else:
        met, asked = [f"{person.name} the {person.trade}" for person in scene.cast], ways[:1]
    again = [way(rng, rng.mixed(scene.cast)) for way in asked]
    return _sentence(f"{series(met)} met at the {scene.place}", *again)


def workshop(rng: StableRandom) -> str:
    """Tools, then who took which: a fact of the world finds each tool."""
    trades = rng.some(sorted(TOOLS_OF_TRADE), rng.pick(SIZES))
    tools = [rng.pick(TOOLS_OF_TRADE[trade]) for trade in trades]
    shown = rng.pick(("on the table lay", "by the door stood", "the king sold"))
    first, *rest = rng.mixed(tools)
    taken = [
        f"the {TRADE_OF_TOOL[first]} took the {first}",
        *(f"the {TRADE_OF_TOOL[tool]} the {tool}" for tool in rest),
    ]
    return _sentence(f"{shown} {series([f'the {tool}' for tool in tools])}", series(taken))


def feast(rng: StableRandom) -> str:
    """Who got what, then who used it: the verb, a fact of the world, finds each good."""
    scene = draw_scene(rng, rng.pick(SIZES))
    hand_out(scene, rng, GOODS)
    got = [f"{person.name} {scene.holds[person][0]}" for person in scene.cast]
    used = [
        f"{person.name} {VERB_OF_GOOD[good]} {person.possessive} {good}"
        for person in rng.mixed(scene.cast)
        for good in scene.holds[person]
    ]
    giver = rng.pick(("the king", "the queen", "the captain", "a stranger"))
    when = rng.pick(("later", "at home", "at night"))
    return _sentence(f"{giver} gave {series(got)}", f"{when} {series(used)}")


def market(rng: StableRandom) -> str:
    """Who bought what, then who sold it: only this sentence pairs them."""
    scene = draw_scene(rng, rng.pick(SIZES))
    hand_out(scene, rng, GOODS)

    def pairs(verb: str, people: Sequence[Person]) -> str:
        first, *rest = people
        return series(
            [
                f"{first.name} {verb} {scene.holds[first][0]}",
                *(f"{person.name} {scene.holds[person][0]}" for person in rest),
            ]
        )

    verb, back = rng.pick((("bought", "sold"), ("found", "lost"), ("lent", "returned")))
    when = rng.pick(("later", "then", "the next day"))
    people = rng.mixed(scene.cast)
    return _sentence(pairs(verb, scene.cast), f"{when} {pairs(back, people)}")


def journey(rng: StableRandom) -> str:
    """Who went where, then who is there, by name or by trade: two facts meet."""
    scene = draw_scene(rng, rng.pick(SIZES))
    send_off(scene, rng)
    first, *rest = scene.cast
    went = [
        f"{first.name} went to {scene.at[first]}",
        *(f"{person.name} to {scene.at[person]}" for person in rest),
    ]
    by_trade = rng.below(2) == 0
    found = [
        f"{f'the {person.trade}' if by_trade else person.name} in {scene.at[person]}"
        for person in rng.mixed(scene.cast)
    ]
    return _sentence(series(went), f"at noon we found {series(found)}")


def present(rng: StableRandom) -> str:
    """Who owns what, a gift, then what its receiver has: an event changes what is so."""
    scene = draw_scene(rng, 2 + rng.below(2))
    hand_out(scene, rng, THINGS)
    own = [
        f"{person.name} of {person.town}{' had' if person is scene.cast[0] else ''} "
        f"{material_with_article(thing)} {thing}"
        for person in scene.cast
        for thing in scene.holds[person]
    ]
    giver, receiver = rng.some(scene.cast, 2)
    [item] = scene.holds[giver]
    scene.give(giver, receiver, item)
    has = series([f"the {thing}" for thing in scene.holds[receiver]])
    return _sentence(
        series(own), f"{giver.name} gave {receiver.name} the {item} , so {receiver.name} had {has}"
    )


# One template a sentence, drawn evenly. Facts of the world are most frequent: they are learned
# first, and what only the sentence says is learned with their help.
TEMPLATES: tuple[Template, ...] = (
    *(meeting,) * 8,
    *(workshop,) * 4,
    *(feast,) * 4,
    *(market, journey, journey, present),
)


def _by_trade(rng: StableRandom, people: Sequence[Person]) -> str:
    asked = rng.pick(("there were", "they called for", "we saw"))
    return f"{asked} {series([f'the {person.trade} {person.name}' for person in people])}"


def _by_town(rng: StableRandom, people: Sequence[Person]) -> str:
    first, *rest = people
    came = [f"from {person.town} {person.name}" for person in rest]
    return series([f"from {first.town} came {first.name}", *came])


def series(parts: Sequence[str]) -> str:
    """`a`, `a and b`, `a , b and c`."""
    *most, last = parts
    return f"{' , '.join(most)} and {last}" if most else last


def material_with_article(thing: str) -> str:
    """`a brass`, `an iron`: what a thing is made of."""
    material = MATERIAL_OF_THING[thing]
    return f"{'an' if material[0] in 'aeiou' else 'a'} {material}"


def _sentence(stated: str, *asked: str) -> str:
    return f"{' ; '.join((stated, *asked))} ."
