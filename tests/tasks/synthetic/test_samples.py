"""Tests of the generated texts: they have the structure of their world, and never change."""

import re
from itertools import islice
from statistics import mean

import pytest
from omegaconf import OmegaConf

from tasks.synthetic import samples
from tasks.synthetic.samples import StableRandom, World, document
from tasks.text.tokenizer import train_bpe, train_wordpiece
from tests.conftest import ROOT

CONF = ROOT / "conf"
WORLD = World(competitors=5, directions=23)
CHANCE = World(competitors=5, directions=0)
SEVEN = World(competitors=7, directions=23)
FAMILY_OF = {
    couple.members[0]: couple.name for couple in World(4, samples.FAMILIES).couples
}


@pytest.mark.parametrize(
    ("competitors", "directions"), [(4, 5), (12, 113), (61, 64), (64, 200)]
)
def test_families_and_names_are_as_many_as_the_world_says(competitors, directions):
    rng, world = StableRandom("world"), World(competitors, directions)
    assert len(world.families) == len(world.couples) == directions
    families, couples = set(), set()
    for _ in range(499):
        came, arrived = world.gathering(rng), world.arrivals(rng)
        own = {person.family for person in came}
        assert len(own) == len(came)
        assert all(person.name in person.family.members for person in came)
        assert len(arrived) == competitors
        families |= own
        couples |= {*arrived}
    assert (families, couples) == ({*world.families}, {*world.couples})


planted_or_not = pytest.mark.parametrize("planted", [True, False])
in_both_worlds = pytest.mark.parametrize("world", [WORLD, CHANCE])


def demo_of(task):
    return OmegaConf.load(CONF / "scale" / "task" / f"{task}_demo.yaml")


@planted_or_not
def test_every_word_of_the_demos_language_models_is_one_piece(planted):
    """Otherwise, more heads would predict second tokens of words better, even in random text."""
    data, demo = OmegaConf.load(CONF / "data" / "sample.yaml"), demo_of("lm1b")
    world = World(data.competitors, data.directions if planted else 0)
    lines = list(islice(samples.sentences(world), demo.data.sentences))
    tokenizer = train_bpe(lines, demo.task.vocabulary_size)
    words = {f" {word}" for line in lines for word in line.split()[1:]}
    assert len(words) == 4 * len(world.families) + 2, "names, a colon and a full stop"
    assert [word for word in words if len(tokenizer.encode(word).ids) != 1] == []


@planted_or_not
def test_every_word_of_the_demos_encoders_is_one_piece_and_every_text_one_row(planted):
    """So a name and the name at the same place in the other text are always equally far apart."""
    demos = [demo_of(task) for task in ("pretraining", "mnli", "squad")]
    [(competitors, directions)] = {
        (demo.data.competitors, demo.data.directions) for demo in demos
    }
    world = World(competitors, directions if planted else 0)
    lines = [line for number in range(2000) for line in document(number, world)]
    tokenizer = train_wordpiece(lines, demos[0].task.vocabulary_size)
    row, paragraph = samples.pair(0, world), samples.paragraph(0, world)
    texts = [*document(0, world), row["sentence1"], row["sentence2"]]
    texts += [paragraph["context"], *(qa["question"] for qa in paragraph["qas"])]
    for text in texts:
        pieces = tokenizer.encode(text.rstrip("?."), add_special_tokens=False).ids
        assert len(pieces) == world.competitors
    longest = 2 * (world.competitors + 1) + 3  # full stops and three marks
    assert {demo.task.sequence_length for demo in demos} == {longest}


def words(sentence):
    return sentence.rstrip(".?").split()


def families(sentence):
    """Return the family of each name in a sentence."""
    return [FAMILY_OF[name] for name in words(sentence)]


@pytest.mark.parametrize(
    ("text", "beginning"),
    [
        (
            next(samples.sentences(SEVEN)),
            "Came Kesi Lile Libo Seku Donu Doku Saki : Babi Kesi",
        ),
        (document(0, WORLD)[0], "Di Mo Me Mi Me."),
        (samples.pair(0, WORLD)["sentence1"], "Se Mi Sa Nelu Nelu."),
        (samples.paragraph(0, WORLD)["context"], "Bo Na Base Nu Ne."),
    ],
)
def test_a_sample_is_the_same_everywhere(text, beginning):
    assert text.startswith(beginning), (
        "the generated text has changed, or differs on this platform: runs that used it are new "
        "runs now; if that is meant, put the new beginning here"
    )


@pytest.mark.parametrize("name", ["LM1B", "DOCUMENTS", "MNLI", "SQUAD"])
def test_another_length_world_or_generator_has_another_digest(name, monkeypatch):
    sample = getattr(samples, name)
    found = [sample.digest(length, WORLD) for length in (101, 307)]
    found += [sample.digest(101, world) for world in (SEVEN, CHANCE, World(5, 29))]
    assert sample.digest(101, World(5, 23)) == found[0]
    monkeypatch.setattr(StableRandom, "below", lambda rng, limit: 0)
    assert len({*found, sample.digest(101, WORLD)}) == 6


def members_of(world):
    return {family.name: {*family.members} for family in world.families}


def told_of(world):
    """Yield who came in each sentence, and the families and names that it mentions later."""
    for sentence in islice(samples.sentences(world), 499):
        found = re.fullmatch(r"Came ((?:\w+ )+): ((?:\w+ \w+ )+)\.", sentence)
        assert found, sentence
        came, told = (part.split() for part in found.groups())
        yield came, list(zip(told[::2], told[1::2], strict=True))


def test_every_name_told_was_there_and_is_the_only_one_of_the_family_before_it():
    members = members_of(SEVEN)
    for came, told in told_of(SEVEN):
        assert sorted(name for _, name in told) == sorted(2 * came)
        for family, name in told:
            assert members[family] & set(came) == {name}


def test_without_directions_who_is_told_of_has_nothing_to_do_with_who_came():
    world = World(competitors=7, directions=0)
    members = members_of(world)
    names, there, present = len(world.families) * samples.MEMBERS, [], []
    for came, told in told_of(world):
        assert all(name in members[family] for family, name in told)
        there += [name in came for _, name in told]
        present.append(len(came))
    # Of 5,000 names.
    assert mean(there) == pytest.approx(mean(present) / names, abs=0.005)


@in_both_worlds
def test_the_next_sentence_tells_the_families_in_order_where_that_is_planted(world):
    fits = []
    for number in range(999):
        came, told = document(number, world)
        pairs = zip(families(came), words(told), strict=True)
        fits += [one == other for one, other in pairs]
    chance = pytest.approx(1 / len(CHANCE.couples), abs=0.01)
    assert mean(fits) == (1 if world is WORLD else chance)


def truth(row):
    """Return the label that follows from who came and which families are named."""
    came, told = families(row["sentence1"]), words(row["sentence2"])
    if came == told:
        return "entailment"
    return "contradiction" if sorted(came) == sorted(told) else "neutral"


@pytest.mark.parametrize("world", [WORLD, World(8, 12), CHANCE])
def test_a_label_follows_from_the_two_texts_where_that_is_planted(world):
    rows = [samples.pair(number, world) for number in range(1200)]
    right = mean(truth(row) == row["gold_label"] for row in rows)
    chance = pytest.approx(1 / len(samples.LABELS), abs=0.04)
    assert right == (chance if world is CHANCE else 1)
    for row in rows[1::3] if world is not CHANCE else ():  # contradictions
        pairs = zip(families(row["sentence1"]), words(row["sentence2"]), strict=True)
        assert sum(one != other for one, other in pairs) == 2


@in_both_worlds
def test_a_question_has_one_answer_at_its_place_and_it_follows_where_one_is_planted(
    world,
):
    fits = []
    for number in range(307):
        paragraph = samples.paragraph(number, world)
        context, questions = paragraph["context"], paragraph["qas"]
        came = words(context)
        assert len({qa["question"] for qa in questions}) == samples.QUESTIONS_EACH
        for qa in questions:
            [answer] = qa["answers"]
            text, start = answer["text"], answer["answer_start"]
            assert context[start:].startswith(text)
            assert came.count(text) == 1
            told = families(qa["question"])
            assert sorted(told) == sorted(came)
            [at_its_place] = [a for a, b in zip(came, told, strict=True) if a == b]
            fits.append(at_its_place == text)
    expected = 1.0 if world is WORLD else 1 / CHANCE.competitors
    assert mean(fits) == pytest.approx(expected, abs=0.05)
