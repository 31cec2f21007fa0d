"""Paper tables: measured and published numbers, in files and in a terminal."""

import csv
import math
import re

import pytest

from sweeper.results.collect import collect, write_tables
from sweeper.results.paper_tables import (
    ABSENT,
    as_latex,
    as_text,
    paper_table,
    summarise,
)
from tests.sweeper.results.synthetic import (
    Model,
    described,
    finetuned,
    match,
    one_arm,
)


def lines(block):
    return {words: tuple(cells) for words, *cells in block.rows}


def test_mean_and_sd_stand_in_the_rows_of_the_paper_and_its_numbers_below():
    block, paper = paper_table(finetuned().table()).blocks
    measured = lines(block)
    metrics = ["SQuAD F1", "SQuAD exact match", "MNLI accuracy (%)"]
    assert list(measured) == ["heads", "total parameters", *metrics]
    assert measured["heads"] == ("8", "12", "32")
    # Seeds lie 0.6 above and 0.2 below 72; their sd is 0.8 / sqrt(2).
    assert measured["SQuAD F1"][0] == "72.20 ± 0.57"
    assert measured["MNLI accuracy (%)"][0] == "52.20 ± 0.57"
    assert not any("paper" in words for words in measured)
    assert paper.title == "the paper, at its own scale"
    assert lines(paper)["heads"] == ("8", "12", "16", "32")
    assert lines(paper)["SQuAD F1"][3] == "90.95 ± 0.14"


def test_a_small_number_is_not_printed_as_zero():
    seeds = {2: (4e-9, 8e-9), 3: (0, 0), 5: (1.004, 2.008), 7: (1.4930, 1.4934)}
    table = one_arm("model.heads", seeds, figure="table").table()
    [block] = paper_table(table).blocks
    cells = "6e-09 ± 2.8e-09, 0.00 ± 0.00, 1.51 ± 0.71, 1.49320 ± 0.00028"
    assert ", ".join(block.rows[-1][1:]) == cells


def test_missing_seeds_are_counted_in_their_cell():
    def done(task, heads, seed):
        return (task, heads) != ("squad", 12) and (task, heads, seed) != ("mnli", 12, 1)

    content = paper_table(finetuned(done=done).table())
    measured = lines(content.blocks[0])
    assert measured["SQuAD F1"][1] == ABSENT
    assert measured["MNLI accuracy (%)"][1] == "53.60 (1/2)"
    assert content.notes[-1] == "3 of 15 runs missing: 3 not started."


@pytest.mark.parametrize("pretrainings", [1, 2])
def test_what_a_seed_stands_for_is_said(pretrainings):
    content = paper_table(finetuned(seeds=2, pretrainings=pretrainings).table())
    notes = " ".join(content.notes)
    assert "Parameters are those of the pre-trained model." in notes
    assert ("start from one pre-training" in notes) is (pretrainings == 1)


@pytest.mark.parametrize("name", ["table1", "table2a", "table2b", "table3"])
def test_every_number_of_the_paper_is_in_the_text(name):
    text = "\n".join(as_text(paper_table(finetuned(name).table())))
    paper = described(name)["paper"]
    assert len(paper) >= 3
    for entry in paper.values():
        assert entry.pop("params") in text
        assert all(f"{mean} ± {sd}" in text for mean, sd in entry.values())


def test_the_files_hold_the_same_cells(tmp_path):
    table = finetuned().table(tmp_path)
    assert write_tables(tmp_path, collect(tmp_path)) == [table]
    content = paper_table(table)
    cells = [[b.title, *line] for b in content.blocks for line in b.rows]
    base = tmp_path / "tables" / "table2a.printed"
    with base.with_suffix(".printed.csv").open(newline="") as file:
        assert list(csv.reader(file)) == cells
    assert base.with_suffix(".printed.txt").read_text().splitlines() == as_text(content)
    assert base.with_suffix(".printed.tex").read_text() == as_latex(content, "table2a")


def test_latex_is_escaped_and_balanced():
    hostile = "50% of $x_1 & #2 {\\input{/etc/passwd}} ~^ <\x1b\n"
    arms = {"fixed": {"label": hostile}}
    table = finetuned(title=hostile, text=hostile, arms=arms).table()
    text = as_latex(paper_table(table), "table2a")
    assert "\\input" not in text
    assert "50\\% of \\$x\\_1 \\& \\#2 \\{\\textbackslash{}input" in text
    assert text.isascii()
    bare = re.sub(r"\\[&%$#_{}\\]", "", text)
    assert bare.count("{") == bare.count("}")
    assert text.count("\\begin") == text.count("\\end")
    tabulars = re.findall(r"\\begin\{tabular\}\{(lr*)\}(.*?)\\end", bare, re.S)
    assert len(tabulars) == 2
    for columns, rows in tabulars:
        counts = {line.count(" & ") for line in rows.splitlines()}
        assert counts - {0} == {len(columns) - 1}


def test_a_line_a_point_with_mean_sd_size_and_match_error():
    sweep = one_arm("model.heads", {2: [41.0, 43.0], 3: [40.0, None]})
    for point in sweep.points[:2]:
        point["matched"] = match("7", error=-0.00123)
    [title, header, first, second, closing] = summarise(sweep.table())
    assert title == "fig1: test perplexity per subword"
    assert header.split()[:4] == ["arm", "point", "seeds", "mean"]
    assert first.split() == "fixed heads=2 2/2 42 ± 1.4 369.7k -0.12%".split()
    assert second.split() == "fixed heads=3 1/2 40 381.9k".split()
    assert closing == "1 of 4 runs missing: 1 not started."
    sweep.about["arms"] = {"fixed": {}, "another": {"metric": "test/loss"}}
    sweep.add("another", Model(64, 2, 16), [math.exp(2) - 1], {"model.heads": 5})
    last = " ".join(summarise(sweep.table())[4].split())
    assert last == "another heads=5 1/1 2 369.7k test loss (nats per subword)"
    assert first.index("369.7k") == second.index("381.9k")
