"""Tests of the code itself: the road in CONTRIBUTING.md, circular imports, sizes, unsafe calls."""

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("sweeper", "tasks", "models")
ROAD = re.compile(r"^\| (\d) \| (.+?) \| (.+?) \|", re.MULTILINE)
PACKAGES = (*ROOMS, "hydra_plugins", "headroom_attention", "examples", "benchmarks")
PROGRAM = [
    *ROOT.glob("*.py"),
    *(path for name in PACKAGES for path in (ROOT / name).rglob("*.py")),
]
LONGEST_FILE, LONGEST_FUNCTION = 700, 100


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {
    module_name(path): path for room in ROOMS for path in (ROOT / room).rglob("*.py")
}


def imports_at_the_top(tree):
    """Yield the modules that a file imports outside functions, under TYPE_CHECKING too."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "import by the full name"
            assert node.module
            inner = [f"{node.module}.{alias.name}" for alias in node.names]
            submodules = [name for name in inner if name in MODULES]
            yield from submodules
            if len(submodules) < len(inner):
                yield node.module
        waiting.extend(ast.iter_child_nodes(node))


def test_no_modules_import_each_other_in_a_circle():
    graph = {
        name: {*imports_at_the_top(ast.parse(path.read_text("utf-8")))} & MODULES.keys()
        for name, path in MODULES.items()
    }
    assert sum(map(len, graph.values())) > len(graph) > 100
    TopologicalSorter(
        graph
    ).prepare()  # raises CycleError, which names the modules of a circle


def test_no_file_and_no_function_is_too_long():
    files = {}
    functions = {}
    for path in PROGRAM:
        name = str(path.relative_to(ROOT))
        text = path.read_text("utf-8")
        files[name] = text.count("\n")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                functions[f"{name}:{node.name}"] = (
                    (node.end_lineno or 0) - node.lineno + 1
                )
    assert len(functions) > len(files) > 100
    assert {name: n for name, n in files.items() if n > LONGEST_FILE} == {}
    assert {name: n for name, n in functions.items() if n > LONGEST_FUNCTION} == {}


def test_the_road_leads_through_existing_code():
    stops = ROAD.findall((ROOT / "CONTRIBUTING.md").read_text("utf-8"))
    assert [int(number) for number, _, _ in stops] == list(range(1, 10))
    for _, files, names in stops:
        for file, name in zip(files.split(", "), names.split(", "), strict=True):
            tree = ast.parse((ROOT / file.strip("`")).read_text("utf-8"))
            there = {node.name for node in ast.walk(tree) if hasattr(node, "name")}
            assert name.strip("`").rpartition(".")[2] in there, (file, name)


# Names of calls that run what data says, by the last parts of how they are written.
FORBIDDEN = {
    "eval", "exec", "compile", "__import__", "os.system", "os.popen", "pickle.load", "pickle.loads",
    "marshal.loads", "yaml.load", "yaml.unsafe_load", "shelve.open", "hub.load", "instantiate",
    "utils.instantiate", "joblib.load", "dill.load", "cloudpickle.load",
}  # fmt: skip


def complaints(source):
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        given = {one.arg: ast.unparse(one.value) for one in node.keywords}
        if any(
            name == word or ("." in word and name.endswith(f".{word}"))
            for word in FORBIDDEN
        ):
            yield name
        if name.endswith("torch.load") and given.get("weights_only") != "True":
            yield "torch.load without weights_only=True"
        if given.get("allow_pickle") not in (None, "False"):
            yield "allow_pickle"
        if given.get("shell") not in (None, "False"):
            yield "shell"


def test_no_call_runs_what_data_says():
    assert len(PROGRAM) > 100
    found = {str(path): list(complaints(path.read_text())) for path in PROGRAM}
    assert {path: words for path, words in found.items() if words} == {}


@pytest.mark.parametrize(
    "source",
    ["eval(x)", "torch.load(p)", "torch.load(p, weights_only=False)",
     "np.load(p, allow_pickle=True)", "run(x, shell=True)", "yaml.load(x)",
     "import pickle; pickle.load(f)", "os.system('x')",
     "instantiate(c)", "hydra.utils.instantiate(c)"],
)  # fmt: skip
def test_the_test_would_notice(source):
    assert list(complaints(source))
