r"""A paper table as text, as .csv and as LaTeX.

outputs/tables/<experiment>.printed.txt   aligned, for a terminal
outputs/tables/<experiment>.printed.csv   the same cells for a spreadsheet
outputs/tables/<experiment>.printed.tex   a LaTeX table; it needs \usepackage{booktabs}
"""

from __future__ import annotations

from pathlib import Path

from sweeper.results.paper_tables.content import Block, Line, PaperTable, paper_table
from sweeper.results.table import Table, csv_line, exported, publish_made, stem
from sweeper.store.errors import sanitize

_LIMIT = 60  # letters of a cell
_LATEX = {
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
    "<": "\\textless{}",
    ">": "\\textgreater{}",
    "±": "$\\pm$",
    "–": "--",
}


def write_paper_table(outputs: Path, table: Table) -> None:
    content = paper_table(table)
    files = {
        "txt": "".join(f"{line}\n" for line in as_text(content)),
        "csv": as_csv(content),
        "tex": as_latex(content, stem(table.name)),
    }
    for kind, text in files.items():
        publish_made(exported(outputs, table, f".printed.{kind}"), text)


def as_text(content: PaperTable) -> list[str]:
    """Lines of text: columns of all blocks stand below each other."""
    grids = [[_safe(line) for line in (block.head, *block.lines)] for block in content.blocks]
    lines = [line for grid in grids for line in grid]
    first = max((len(line[0]) for line in lines), default=0)
    rest = max((len(cell) for line in lines for cell in line[1:]), default=0)
    text = [sanitize(content.title, 200)]
    for block, grid in zip(content.blocks, grids, strict=True):
        text += ["", sanitize(block.title, _LIMIT)]
        for line in grid:
            cells = [cell.rjust(rest) for cell in line[1:]]
            text.append("  ".join([line[0].ljust(first), *cells]).rstrip())
    return [*text, "", *(sanitize(note, 400) for note in content.notes)]


def as_csv(content: PaperTable) -> str:
    """The cells as text; the first column says which block a line is of."""
    return "".join(
        csv_line([sanitize(block.title, _LIMIT), *_safe(line)])
        for block in content.blocks
        for line in (block.head, *block.lines)
    )


def as_latex(content: PaperTable, name: str) -> str:
    r"""A table environment, a tabular for each block; `name` makes its \label."""
    lines = ["% needs \\usepackage{booktabs}", "\\begin{table}", "\\centering"]
    lines.append(f"\\caption{{{_latex(sanitize(content.title, 200))}}}")
    lines.append(f"\\label{{tab:{name}}}")
    for block in content.blocks:
        lines += _tabular(block)
    lines += [f"\\par\\footnotesize {_latex(sanitize(note, 400))}" for note in content.notes]
    return "\n".join([*lines, "\\end{table}", ""])


def _tabular(block: Block) -> list[str]:
    columns = len(block.head)
    title = f"\\multicolumn{{{columns}}}{{l}}{{{_latex(sanitize(block.title, _LIMIT))}}} \\\\"
    body = [_row(line) for line in block.lines]
    begin = f"\\begin{{tabular}}{{l{'r' * (columns - 1)}}}"
    rules = ["\\toprule", title, _row(block.head), "\\midrule", *body, "\\bottomrule"]
    return ["\\par\\medskip", begin, *rules, "\\end{tabular}"]


def _row(line: Line) -> str:
    return " & ".join(_latex(cell) for cell in _safe(line)) + " \\\\"


def _safe(line: Line) -> Line:
    return tuple(sanitize(cell, _LIMIT) for cell in line)


def _latex(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)
