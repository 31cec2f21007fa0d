"""The code itself: the road, circular imports, sizes, unsafe calls, and what an import loads."""

import ast
import json
import os
import pkgutil
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("sweeper", "tasks", "models")
ROAD = re.compile(r"^\| (\d) \| (.+?) \| (.+?) \|", re.MULTILINE)
PACKAGES = (*ROOMS, "hydra_plugins", "headroom_attention", "examples", "benchmarks")
PROGRAM = [*ROOT.glob("*.py"), *(path for name in PACKAGES for path in (ROOT / name).rglob("*.py"))]
LONGEST_FILE, LONGEST_FUNCTION = 600, 90


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for room in ROOMS for path in (ROOT / room).rglob("*.py")}


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
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the modules of a circle


def test_no_file_and_no_function_is_too_long():
    files = {}
    functions = {}
    for path in PROGRAM:
        name = str(path.relative_to(ROOT))
        text = path.read_text("utf-8")
        files[name] = text.count("\n")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                functions[f"{name}:{node.name}"] = (node.end_lineno or 0) - node.lineno + 1
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
        if any(name == word or ("." in word and name.endswith(f".{word}")) for word in FORBIDDEN):
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


HEAVY = {"torch", "pytorch_lightning", "torchmetrics", "wandb", "datasets", "tokenizers"}
DRAWING = {"matplotlib", "pandas", "scipy"}
CLUSTERS = {"submitit", "ray"}
CONFIGURATION = {"hydra", "omegaconf"}
PLAIN = {"pytorch_lightning", "wandb", "datasets"}


def modules_of(*packages):
    """Names of all modules at and below packages, without importing any of them."""
    found = []
    for package in packages:
        folder = ROOT.joinpath(*package.split("."))
        assert folder.is_dir(), f"{package} has no folder {folder}"
        found.append(package)
        for module in pkgutil.iter_modules([str(folder)], f"{package}."):
            if module.ispkg:
                found += modules_of(module.name)
            elif not module.name.endswith("__main__"):
                found.append(module.name)
    return found


def loaded_after(statements):
    """Top-level names of the modules in a fresh process that has executed the statements."""
    script = f"""
import json, sys
try:
    {statements}
finally:
    names = sorted({{name.split(".")[0] for name in sys.modules}})
    print("loaded", json.dumps(names), file=sys.__stderr__)
"""
    result = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    last = result.stderr.splitlines()[-1]
    return set(json.loads(last.removeprefix("loaded ")))


WATCHING = ["sweeper.cli.status", "sweeper.__main__"]
# Archives are checked with pydantic; other modules of the store import them when they read one.
STORE = [name for name in modules_of("sweeper.store") if name != "sweeper.store.archive"]
LIGHT = {
    "the sweeper": (modules_of("sweeper"), HEAVY | CLUSTERS),
    "planning and watching": (
        [*modules_of("sweeper.plan", "sweeper.run", "sweeper.store"), *WATCHING],
        HEAVY | DRAWING,
    ),
    "a page": (["sweeper.results.report.page"], HEAVY | {"matplotlib", "pandas"}),
    "the store": (STORE, HEAVY | DRAWING | CONFIGURATION | {"pydantic", "numpy", "rich"}),
    "plugins, which Hydra loads at every start": (
        modules_of("hydra_plugins.headroom"),
        HEAVY | DRAWING | CLUSTERS | {"pydantic", "numpy"},
    ),
    "models": (
        modules_of("models"),
        CONFIGURATION | PLAIN | {"pydantic", "sweeper", "tasks", "hydra_plugins"},
    ),
    "a job": (modules_of("tasks"), CONFIGURATION | {"wandb", "datasets", "hydra_plugins"}),
    "the warm server": (["tasks.size_server.__main__"], PLAIN),
}


@pytest.mark.parametrize(("modules", "unwanted"), LIGHT.values(), ids=LIGHT)
def test_what_an_import_must_not_load_is_not_loaded(modules, unwanted):
    loaded = loaded_after("import " + ", ".join(modules))
    assert modules[0].split(".")[0] in loaded
    assert not loaded & unwanted
    assert modules[0] not in ("models", "tasks") or "torch" in loaded


@pytest.mark.parametrize("flag", ["--help", "--cfg=job"], ids=["help", "config"])
def test_asking_the_command_what_it_does_stays_light(flag):
    typed = ["sweep.py", flag]
    loaded = loaded_after(
        f"import runpy; sys.argv = {typed}; runpy.run_path('sweep.py', run_name='__main__')"
    )
    assert "hydra_plugins" in loaded, "Hydra did not look for plugins: the check would be vacuous"
    assert not loaded & (HEAVY | DRAWING | CLUSTERS)


def commands():
    """Every module of the packages that is a `python -m` command."""
    folders = [
        ROOT / package
        for package in ("sweeper", "tasks", "headroom_attention", "tests/faults", "benchmarks")
    ]
    files = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
    started = [path for path in files if '__name__ == "__main__"' in path.read_text()]
    names = [".".join(path.relative_to(ROOT).with_suffix("").parts) for path in started]
    # Peers that a benchmark starts, and run.py of a pack, are started where they lie: by a path.
    apart = ("_peer", "export.entry")
    return [name.removesuffix(".__main__") for name in names if not name.endswith(apart)]


ASK_EACH = """
import contextlib, io, json, runpy, sys

found = {}
for name in sys.argv[1:]:
    before = set(sys.modules)
    sys.argv = ["", "--help"]
    with contextlib.redirect_stdout(io.StringIO()) as said, contextlib.suppress(SystemExit):
        runpy.run_module(name, run_name="__main__")
    imported = sorted({module.split(".")[0] for module in set(sys.modules) - before})
    found[name] = [said.getvalue(), imported]
print(json.dumps(found))
"""


def test_asking_a_command_what_it_does_stays_light():
    asked = commands()
    assert len(asked) > 10
    done = subprocess.run(
        [sys.executable, "-c", ASK_EACH, *asked],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    unwanted = HEAVY | DRAWING | CLUSTERS | {"pydantic", "numpy"}
    for name, (said, imported) in json.loads(done.stdout).items():
        assert "usage" in said, f"{name} was not run"
        assert not unwanted & set(imported), name


def test_the_plugin_namespace_stays_open():
    # An __init__.py directly in hydra_plugins/ would hide every other installed Hydra plugin.
    assert (ROOT / "hydra_plugins" / "headroom" / "__init__.py").is_file()
    assert not (ROOT / "hydra_plugins" / "__init__.py").exists()
