"""Tests of Headroom as a wheel, together with a package that adds a task and a model."""

import json
import shutil
import sys
import sysconfig
import venv

import pytest

from tests.end_to_end.test_sweep import ROOT, completed

pytestmark = pytest.mark.slow

EXTENSION = ROOT / "examples" / "extension"
NOT_SHIPPED = shutil.ignore_patterns(
    ".*", "outputs", "build", "*.egg-info", "__pycache__"
)

FROM_PYTHON = """
import headroom_attention as headroom
run = headroom.run(headroom.table("recall")["run"][0])
print(len(headroom.runs("recall")), run.evaluate() == run.metrics())
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A new environment with the wheel and the extension. It shares this one's libraries."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "venv", with_pip=False)
    [site] = (folder / "venv").glob("lib/python*/site-packages")
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    shutil.copytree(ROOT, folder / "headroom", ignore=NOT_SHIPPED)
    pip = [sys.executable, "-m", "pip", "--python", folder / "venv" / "bin" / "python"]
    build = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    completed(*pip, "wheel", *build, "--wheel-dir", "wheels", "./headroom", cwd=folder)
    [wheel] = (folder / "wheels").iterdir()
    completed(
        *pip, "install", *build, wheel, "./headroom/examples/extension", cwd=folder
    )
    shutil.rmtree(folder / "headroom")
    return folder / "venv"


def sources(site):
    return {path for path in site.rglob("*") if "__pycache__" not in path.parts}


def test_a_package_of_ones_own_is_trained_judged_and_drawn(environment, tmp_path):
    [site] = environment.glob("lib/python*/site-packages")
    added = {
        path.name
        for path in site.iterdir()
        if not path.name.endswith((".dist-info", ".pth"))
    }
    assert added == {"headroom_attention", "headroom_example"}
    before = sources(site)

    headroom, own = environment / "bin" / "headroom", tmp_path / "own"
    for folder in ("tasks", "models", "conf"):  # folders of another program
        (own / folder).mkdir(parents=True)
        (own / folder / "__init__.py").write_text(
            "raise AssertionError('not Headroom')"
        )
    swept = "sweep", "-m", "experiment=recall", "name=recall", "model/attention=cosine"
    short = "trainer.steps=30", "model.head_size=1,5", "logger=none"
    completed(headroom, *swept, *short, "seed=0", cwd=own)
    # The sizes are in the cache, so the size server is first started for the jobs.
    told = completed(headroom, *swept, *short, "seed=0,1", cwd=own).stdout

    outputs = own / "outputs"
    assert "larger_heads_recall_more" in told
    assert (outputs / "figures" / "recall.pdf").read_bytes().startswith(b"%PDF")
    [verdict] = json.loads((outputs / "tables" / "recall.claims.json").read_text())[
        "verdicts"
    ]
    assert verdict["claim"] == "larger_heads_recall_more"
    attempts = list(outputs.glob("runs/*/attempts/0001/attempt.json"))
    assert len(attempts) == 4
    for attempt in attempts:
        about = json.loads(attempt.read_text())
        assert about["code"] == "headroom-attention 0.1.0"
        assert [made["package"] for made in about["packages"]] == [
            "headroom-example"
        ] * 2
    lines = json.loads(completed(headroom, "status", "--json", cwd=own).stdout)
    assert [line["state"] for line in lines] == ["done"] * 4
    told = completed(environment / "bin" / "python", "-c", FROM_PYTHON, cwd=own)
    assert told.stdout.split() == ["4", "True"]
    completed(headroom, "report", cwd=own)
    assert (outputs / "report.html").is_file()
    assert sources(site) == before
    assert {path.name for path in own.iterdir()} == {
        "tasks",
        "models",
        "conf",
        "outputs",
    }


def test_the_extensions_own_tests_pass(environment, tmp_path):
    shutil.copytree(EXTENSION / "tests", tmp_path / "tests")
    python = environment / "bin" / "python"
    completed(
        python, "-m", "pytest", "-q", "--import-mode=importlib", "tests", cwd=tmp_path
    )
