"""The embedded documents: always the same, in BERT's format, and true to who came."""

from tasks.synthetic.families import World
from tasks.synthetic.samples import DOCUMENTS, DOCUMENTS_FILE, GATHERINGS, document, documents

WORLD = World(competitors=5, directions=23)


def test_a_document_is_the_same_for_its_number_everywhere():
    assert document(0, WORLD)[0] == "Rine Nelu Rire Nano.", (
        "see test_lm1b.py: runs on this text are new runs"
    )
    assert [document(n, WORLD) for n in range(50)] == [document(n, WORLD) for n in range(50)]
    assert len({tuple(document(number, WORLD)) for number in range(500)}) == 500


def test_there_are_as_many_sentences_as_asked_and_a_longer_text_begins_with_a_shorter():
    short, long = list(documents(101, WORLD)), list(documents(1009, WORLD))
    assert (sum(map(len, short)), sum(map(len, long))) == (101, 1009)
    assert long[: len(short) - 1] == short[:-1]
    hashes = [DOCUMENTS.digest(101, WORLD), DOCUMENTS.digest(1009, WORLD)]
    hashes += [DOCUMENTS.digest(101, World(7, 23)), DOCUMENTS.digest(101, World(5, 0))]
    assert len(set(hashes)) == 4


def test_it_is_written_in_berts_format_once(tmp_path):
    folder = tmp_path / "sample"
    DOCUMENTS.write(folder, 307, WORLD)
    text = (folder / DOCUMENTS_FILE).read_text()
    blocks = [block.split("\n") for block in text.strip().split("\n\n")]
    assert blocks == list(documents(307, WORLD))
    stamp = (folder / DOCUMENTS_FILE).stat().st_mtime_ns
    DOCUMENTS.write(folder, 307, WORLD)
    assert (folder / DOCUMENTS_FILE).stat().st_mtime_ns == stamp


def test_the_next_sentence_tells_of_all_who_came_by_their_families():
    family_of = {name: family.name for family in WORLD.families for name in family.members}
    for number in range(199):
        sentences = [sentence.rstrip(".").split() for sentence in document(number, WORLD)]
        assert len(sentences) == 2 * GATHERINGS
        for came, told in zip(sentences[::2], sentences[1::2], strict=True):
            assert sorted(told[1::2]) == sorted(came)
            assert told[::2] == [family_of[name] for name in told[1::2]]
