"""The embedded pairs and questions: always the same, balanced, true, in the official files."""

import json
from collections import Counter, defaultdict

import pytest

from tasks.synthetic import samples
from tasks.synthetic.families import World

WORLD = World(competitors=5, directions=23)
CHANCE = World(competitors=5, directions=0)
FAMILY_OF = {name: family.name for family in CHANCE.families for name in family.members}


def words(sentence):
    return sentence.rstrip(".").split()


def test_examples_are_the_same_everywhere():
    why = "see test_lm1b.py: runs on this text are new runs"
    assert samples.pair(0, WORLD)["sentence1"] == "Mila Dode Koku Donu Kisa.", why
    assert samples.paragraph(0, WORLD)["context"] == "Muso Bada Leni Muka.", why


def test_a_longer_sample_begins_with_a_shorter_and_both_are_always_the_same(tmp_path):
    for sample, files in ((samples.MNLI, samples.MNLI_FILES), (samples.SQUAD, samples.SQUAD_FILES)):
        for size in (101, 307):
            sample.write(tmp_path / f"{files[0]}{size}", size, WORLD)
        first, longer = (
            [(tmp_path / f"{files[0]}{size}" / name).read_text() for name in files]
            for size in (101, 307)
        )
        for short, long in zip(first, longer, strict=True):
            common = short.rstrip("}] \n")[: len(short) // 2]
            assert long.startswith(common)
        hashes = [sample.digest(101, WORLD), sample.digest(307, WORLD)]
        hashes += [sample.digest(101, CHANCE), sample.digest(101, World(4, 5))]
        assert len(set(hashes)) == 4


def test_the_labels_of_pairs_are_balanced_in_both_files(tmp_path):
    samples.MNLI.write(tmp_path, 2400, WORLD)
    for name, count in ((samples.MNLI_FILES[0], 2100), (samples.MNLI_FILES[1], 300)):
        rows = [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        labels = Counter(row["gold_label"] for row in rows)
        assert labels == dict.fromkeys(samples.LABELS, count // 3)
        assert len({row["pairID"] for row in rows}) == count


def truth(premise, told):
    """The label that follows from who came and who is told of."""
    if set(told) <= set(premise):
        return "entailment"
    families = {FAMILY_OF[name] for name in premise}
    if {FAMILY_OF[name] for name in told} <= families:
        assert not set(told) & set(premise)
        return "contradiction"
    assert not {FAMILY_OF[name] for name in told} & families
    return "neutral"


@pytest.mark.parametrize("world", [WORLD, World(4, 5)], ids=["many", "few_families"])
def test_a_label_follows_from_the_two_texts_and_from_the_number_of_words_never(world):
    lengths = defaultdict[str, Counter[int]](Counter)
    for number in range(1201):
        row = samples.pair(number, world)
        told = words(row["sentence2"])
        assert told[::2] == [FAMILY_OF[name] for name in told[1::2]]
        assert truth(words(row["sentence1"]), told[1::2]) == row["gold_label"]
        lengths[row["gold_label"]][len(told)] += 1
    for length in {length for counts in lengths.values() for length in counts}:
        shares = [lengths[label][length] / 400 for label in samples.LABELS]
        assert max(shares) - min(shares) < 0.1


def test_without_directions_no_label_follows():
    rows = [samples.pair(number, CHANCE) for number in range(1200)]
    true = [truth(words(row["sentence1"]), words(row["sentence2"])[1::2]) for row in rows]
    right = sum(one == row["gold_label"] for one, row in zip(true, rows, strict=True))
    assert right / len(rows) == pytest.approx(1 / len(samples.LABELS), abs=0.04)


@pytest.mark.parametrize("world", [WORLD, CHANCE], ids=["planted", "chance"])
def test_a_question_has_one_answer_at_its_place_of_that_family_where_one_is_planted(world):
    fits = []
    for number in range(307):
        paragraph = samples.paragraph(number, world)
        came = words(paragraph["context"])
        assert len({qa["question"] for qa in paragraph["qas"]}) == samples.QUESTIONS_EACH
        for qa in paragraph["qas"]:
            [answer] = qa["answers"]
            assert paragraph["context"][answer["answer_start"] :].startswith(answer["text"])
            assert came.count(answer["text"]) == 1
            family = qa["question"].rstrip("?")
            of_it = [name for name in came if FAMILY_OF[name] == family]
            assert len(of_it) == 1
            fits.append(of_it == [answer["text"]])
    expected = 1.0 if world is WORLD else 0.25 * 2 / 3 + 0.2 / 3  # 4 or 5 came
    assert sum(fits) / len(fits) == pytest.approx(expected, abs=0.05)


def test_the_answer_stands_anywhere_in_the_paragraph():
    places = Counter[int]()
    for number in range(601):
        paragraph = samples.paragraph(number, World(4, 23))
        for qa in paragraph["qas"]:
            places[words(paragraph["context"]).index(qa["answers"][0]["text"])] += 1
    assert set(places) == set(range(4))
    assert max(places.values()) < 1.2 * min(places.values())
