"""What an import may bring into a process: the sweeper stays light, the models plain."""

import json
import subprocess

import pytest

from tests.end_to_end.test_sweep import ROOT, python

HEAVY = {
    "torch",
    "pytorch_lightning",
    "torchmetrics",
    "wandb",
    "datasets",
    "tokenizers",
}
DRAWING = {"matplotlib", "pandas", "scipy"}
CLUSTERS = {"submitit", "ray"}
CONFIGURATION = {"hydra", "omegaconf"}


def module_of(path):
    """Return the name of the module in a file."""
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    return name.removesuffix(".__init__")


def modules_of(*packages):
    """Return the names of all modules at and below packages, without importing any of them."""
    folders = [ROOT.joinpath(*package.split(".")) for package in packages]
    names = [module_of(path) for one in folders for path in one.rglob("*.py")]
    assert {*packages} <= {*names}
    return [name for name in names if not name.endswith("__main__")]


def loaded_after(statements, said=""):
    """Top-level names of the modules in a fresh process that has executed them and said that."""
    script = f"""
import json, sys
try:
    {statements}
finally:
    names = sorted({{name.split(".")[0] for name in sys.modules}})
    print("loaded", json.dumps(names), file=sys.__stderr__)
"""
    result = python("-c", script, stdin=subprocess.DEVNULL)
    assert said in result.stdout
    last = result.stderr.splitlines()[-1]
    return set(json.loads(last.removeprefix("loaded ")))


LIGHT = {
    "the sweeper": (modules_of("sweeper"), HEAVY | CLUSTERS),
    "planning and watching": (
        [
            *modules_of("sweeper.plan", "sweeper.run", "sweeper.store"),
            "sweeper.cli.status",
            "sweeper.__main__",
        ],
        HEAVY | DRAWING,
    ),
    "a page": (["sweeper.results.report.page"], HEAVY | {"matplotlib", "pandas"}),
    "the store": (
        modules_of("sweeper.store"),
        HEAVY | DRAWING | CONFIGURATION | {"numpy", "rich"},
    ),
    "training without a plan": (
        ["sweeper.run.unfinished", "sweeper.__main__"],
        HEAVY | DRAWING | CONFIGURATION | {"rich", "yaml"},
    ),
    "plugins, which Hydra loads at every start": (
        modules_of("hydra_plugins.headroom"),
        HEAVY | DRAWING | CLUSTERS | {"pydantic", "numpy"},
    ),
    "the warm server": (["tasks.size_server.__main__"], {"wandb", "datasets"}),
}


@pytest.mark.parametrize(("modules", "unwanted"), LIGHT.values(), ids=LIGHT)
def test_what_an_import_must_not_load_is_not_loaded(modules, unwanted):
    loaded = loaded_after("import " + ", ".join(modules))
    assert modules[0].split(".")[0] in loaded
    assert not loaded & unwanted


@pytest.mark.parametrize("flag", ["--help", "--cfg=job"])
def test_asking_the_command_what_it_does_stays_light(flag):
    typed = ["sweep.py", flag]
    loaded = loaded_after(
        f"import runpy; sys.argv = {typed}; runpy.run_path('sweep.py', run_name='__main__')"
    )
    assert "hydra_plugins" in loaded, (
        "Hydra did not look for plugins: the check would be vacuous"
    )
    assert not loaded & (HEAVY | DRAWING | CLUSTERS)


def commands():
    """Every module of the packages that is a `python -m` command."""
    folders = "sweeper tasks headroom_attention tests/faults benchmarks".split()
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    started = [path for path in files if '__name__ == "__main__"' in path.read_text()]
    # Peers that a benchmark starts are started where they lie: by a path.
    ours = [path for path in sorted(started) if not path.stem.endswith("_peer")]
    return [module_of(path).removesuffix(".__main__") for path in ours]


@pytest.mark.parametrize("name", commands())
def test_asking_a_command_what_it_does_stays_light(name):
    asked = "import runpy; sys.argv = ['', '--help']"
    loaded = loaded_after(
        f"{asked}; runpy.run_module({name!r}, run_name='__main__')", "usage"
    )
    assert not loaded & (HEAVY | DRAWING | CLUSTERS | {"numpy"})


def test_the_plugin_namespace_stays_open():
    # An __init__.py directly in hydra_plugins/ would hide every other installed Hydra plugin.
    assert (ROOT / "hydra_plugins" / "headroom" / "__init__.py").is_file()
    assert not (ROOT / "hydra_plugins" / "__init__.py").exists()
