"""The embedded pairs and questions: always the same, balanced, true, in the official files."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from tasks.synthetic import pairs, questions
from tasks.synthetic.world_facts import GOODS_OF_VERB


def test_a_longer_sample_begins_with_a_shorter_and_both_are_always_the_same(tmp_path: Path) -> None:
    for sample in (pairs, questions):
        for size in (101, 307):
            sample.write_sample(tmp_path / f"{sample.__name__}{size}", size)
        first, longer = (
            [
                (tmp_path / f"{sample.__name__}{size}" / name).read_text()
                for name in (sample.TRAIN, sample.TEST)
            ]
            for size in (101, 307)
        )
        for short, long in zip(first, longer, strict=True):
            common = short.rstrip("}] \n")[: len(short) // 2]
            assert long.startswith(common)
        assert sample.generator_hash(101) != sample.generator_hash(307)


def test_the_labels_of_pairs_are_balanced_in_both_files(tmp_path: Path) -> None:
    pairs.write_sample(tmp_path, 2400)
    for name, count in ((pairs.TRAIN, 2100), (pairs.TEST, 300)):
        rows = [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        labels = Counter(row["gold_label"] for row in rows)
        assert labels == dict.fromkeys(pairs.LABELS, count // 3)
        assert len({row["pairID"] for row in rows}) == count


def test_a_label_follows_from_who_has_what_after_the_gift() -> None:
    for number in range(307):
        row = pairs.generate(number)
        giver, _, _, _, thing, _, receiver = row["sentence1"].rstrip(".").split()
        _, holder, _, _, _, _, held = row["sentence2"].rstrip(".").split()
        assert holder in (giver, receiver)
        expected = "neutral" if held != thing else "contradiction"
        if held == thing and holder == receiver:
            expected = "entailment"
        assert row["gold_label"] == expected


def test_a_question_has_one_answer_and_it_stands_where_it_says() -> None:
    verbs = {asked: verb for verb, asked in questions.ASKED.items()}
    assert set(verbs.values()) == set(GOODS_OF_VERB)
    for number in range(307):
        paragraph = questions.generate(number)
        for qa in paragraph["qas"]:
            [answer] = qa["answers"]
            context, start = paragraph["context"], answer["answer_start"]
            assert context[start:].startswith(answer["text"])
            _, _, person, verb = qa["question"].rstrip("?").split()
            sentence = f"{person} {verbs[verb]} {answer['text']} there."
            assert context.count(f"{person} {verbs[verb]} ") == context.count(sentence) == 1
            assert context.index(sentence) + len(sentence) - len(" there.") == start + len(
                answer["text"]
            )


def test_the_answer_stands_anywhere_in_the_paragraph() -> None:
    places = Counter[int]()
    for number in range(601):
        paragraph = questions.generate(number)
        for qa in paragraph["qas"]:
            places[paragraph["context"].count(".", 0, qa["answers"][0]["answer_start"])] += 1
    sentences = questions.PEOPLE * questions.DEEDS
    assert set(places) == set(range(sentences))
    assert max(places.values()) < 1.2 * min(places.values())
