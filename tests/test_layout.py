"""What keeps the house one that people can enter: folders, files and functions for one sitting."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("sweeper", "tasks", "models")
ROAD = re.compile(r"^\| (\d) \| (.+?) \| (.+?) \|", re.MULTILINE)
PACKAGES = (*ROOMS, "hydra_plugins", "headroom_attention", "examples", "benchmarks")
PROGRAM = [*ROOT.glob("*.py"), *(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))]
LARGEST_FOLDER, LONGEST_FILE, LONGEST_FUNCTION = 18, 600, 90


def functions_of(path: Path) -> list[tuple[str, int]]:
    """Each function of a file and how many lines it takes."""
    return [
        (node.name, (node.end_lineno or 0) - node.lineno + 1)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


@pytest.mark.parametrize("room", ROOMS)
def test_no_folder_holds_more_than_one_can_survey(room: str) -> None:
    folders = [folder for folder in (ROOT / room).rglob("*/") if folder.name != "__pycache__"]
    counts = {
        str(folder.relative_to(ROOT)): sum(1 for _ in folder.glob("*.py"))
        for folder in (ROOT / room, *folders)
    }
    assert sum(counts.values()) > LARGEST_FOLDER, "this room is empty: nothing was looked at"
    assert {name: n for name, n in counts.items() if n > LARGEST_FOLDER} == {}


def test_no_file_and_no_function_is_longer_than_one_sitting() -> None:
    files: dict[str, int] = {}
    functions: dict[str, int] = {}
    for path in PROGRAM:
        name = str(path.relative_to(ROOT))
        files[name] = path.read_text("utf-8").count("\n")
        functions |= {f"{name}:{function}": length for function, length in functions_of(path)}
    assert len(functions) > len(files) > 100
    assert {name: n for name, n in files.items() if n > LONGEST_FILE} == {}
    assert {name: n for name, n in functions.items() if n > LONGEST_FUNCTION} == {}


def test_the_road_leads_through_what_is_there() -> None:
    stops = ROAD.findall((ROOT / "CONTRIBUTING.md").read_text("utf-8"))
    assert [int(number) for number, _, _ in stops] == list(range(1, 10))
    for _, files, names in stops:
        for file, name in zip(files.split(", "), names.split(", "), strict=True):
            tree = ast.parse((ROOT / file.strip("`")).read_text("utf-8"))
            there = {node.name for node in ast.walk(tree) if hasattr(node, "name")}
            assert name.strip("`").rpartition(".")[2] in there, (file, name)
