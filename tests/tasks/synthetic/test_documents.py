"""The embedded documents: always the same, in BERT's format, and true to who came."""

from tasks.synthetic.documents import (
    FILE,
    GATHERINGS,
    SAMPLE,
    documents,
    generate,
)
from tasks.synthetic.families import World

WORLD = World(competitors=5, directions=23)


def test_a_document_is_the_same_for_its_number_everywhere():
    assert generate(0, WORLD)[0] == "Rine Nelu Rire Nano.", (
        "see test_lm1b.py: runs on this text are new runs"
    )
    assert [generate(n, WORLD) for n in range(50)] == [generate(n, WORLD) for n in range(50)]
    assert len({tuple(generate(number, WORLD)) for number in range(500)}) == 500


def test_there_are_as_many_sentences_as_asked_and_a_longer_text_begins_with_a_shorter():
    short, long = list(documents(101, WORLD)), list(documents(1009, WORLD))
    assert (sum(map(len, short)), sum(map(len, long))) == (101, 1009)
    assert long[: len(short) - 1] == short[:-1]
    hashes = [SAMPLE.digest(101, WORLD), SAMPLE.digest(1009, WORLD)]
    hashes += [SAMPLE.digest(101, World(7, 23)), SAMPLE.digest(101, World(5, 0))]
    assert len(set(hashes)) == 4


def test_it_is_written_in_berts_format_once(tmp_path):
    folder = tmp_path / "sample"
    SAMPLE.write(folder, 307, WORLD)
    text = (folder / FILE).read_text()
    blocks = [block.split("\n") for block in text.strip().split("\n\n")]
    assert blocks == list(documents(307, WORLD))
    stamp = (folder / FILE).stat().st_mtime_ns
    SAMPLE.write(folder, 307, WORLD)
    assert (folder / FILE).stat().st_mtime_ns == stamp


def test_the_next_sentence_tells_of_all_who_came_by_their_families():
    family_of = {name: family.name for family in WORLD.families for name in family.members}
    for number in range(199):
        sentences = [sentence.rstrip(".").split() for sentence in generate(number, WORLD)]
        assert len(sentences) == 2 * GATHERINGS
        for came, told in zip(sentences[::2], sentences[1::2], strict=True):
            assert sorted(told[1::2]) == sorted(came)
            assert told[::2] == [family_of[name] for name in told[1::2]]
