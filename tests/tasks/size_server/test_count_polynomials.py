"""Sizes by polynomials are those of built models, whatever the task and the attention."""

import copy
import itertools
import random

import pytest

from tasks.parse import parse
from tasks.size_server.sizes import BUILT_FIRST, NODES, CountPolynomials, Polynomials, counts, size
from tests.tasks.fine_tuning_configs import MNLI, SQUAD, fine_tuning
from tests.tasks.jobs import config
from tests.tasks.pretraining_job import small

BASES = {"lm1b": config, "pretraining": small, "mnli": lambda: fine_tuning(MNLI),
         "squad": lambda: fine_tuning(SQUAD)}  # fmt: skip
MULTI_HEAD = {"name": "multi_head"}
CASES = [  # every task, and both kinds of collaborative heads
    *((task, MULTI_HEAD) for task in BASES),
    ("lm1b", {"name": "collaborative", "shared_size": 7}),
    ("pretraining", {"name": "collaborative", "shared_size": None}),
]
HELD_OUT = 3


def shaped(base, attention, rng):
    changed = copy.deepcopy(base)
    heads, heuristic = rng.randint(1, 24), rng.random() < 0.3
    changed["model"] |= {
        "layers": 1,
        "attention": attention,
        "heads": heads,
        "head_size": None if heuristic else rng.randint(1, 99),
        "embedding_size": heads * rng.randint(1, 20) if heuristic else rng.randint(1, 300),
        "feedforward_size": rng.randint(1, 900),
    }
    return changed


@pytest.mark.parametrize(("task", "attention"), CASES, ids=str)
def test_what_polynomials_says_is_what_a_build_says(task, attention):
    rng, built = random.Random(f"{task} {attention}"), []

    def build(run):
        built.append(run)
        return counts(run)

    polynomials = CountPolynomials(build)
    for _ in range(BUILT_FIRST):
        size(shaped(BASES[task](), attention, rng), polynomials.counts)
    for _ in range(HELD_OUT):
        one = shaped(BASES[task](), attention, rng)
        assert size(one, polynomials.counts) == size(one)
    assert len(built) <= 2 * BUILT_FIRST  # else the held-out ones were built, and nothing is shown


def test_counts_that_are_no_such_polynomial_are_always_built():
    """A branch on the shape, as a variant may have: a build that was there first gives it away."""
    polynomials, base = (
        CountPolynomials(lambda run: {"n": 3 * (run.model.feedforward_size > 20)}),
        config(),
    )
    for feedforward in [*range(1, BUILT_FIRST + 1), 97, 20, 21]:
        base["model"]["feedforward_size"] = feedforward
        assert polynomials.counts(parse(base)) == {"n": 3 * (feedforward > 20)}


def test_polynomials_through_the_nodes_has_their_values_and_no_others_that_are_not_whole():
    values = {
        place: {"n": place[0] ** 2 * place[2] + place[1] ** 2 * place[3] + 7}
        for place in itertools.product(*NODES.values())
    }
    found = Polynomials(values)
    assert all(found.at(place) == counts for place, counts in values.items())
    assert found.at((100, 50, 3, 9)) == {"n": 100**2 * 3 + 50**2 * 9 + 7}
    assert Polynomials({}).at((1, 1, 1, 1)) is None
