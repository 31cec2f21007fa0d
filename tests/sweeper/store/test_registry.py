"""A name is looked up among Headroom's files and the entry points of packages, never imported."""

import sys

import pytest

from sweeper.store import importing, registry
from sweeper.store.registry import ATTENTION, FIGURES, Kind, made_of, names
from tests.end_to_end.test_sweep import python
from tests.refusals import refusal

KINDS = [one for one in vars(registry).values() if isinstance(one, Kind)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.word)
def test_listing_imports_nothing(kind, installed):
    installed(
        "costly", "raise AssertionError('imported')", {kind.group: "costly = costly"}
    )
    assert "costly" in names(kind)
    assert "costly" not in sys.modules


@pytest.mark.parametrize(
    "name",
    [
        "rotary",
        "",
        "__init__",
        "fig1.math",
        "../draw",
        "os",
        "fig1 ",
        None,
        ["fig1"],
        7,
    ],
)
def test_an_unknown_name_is_answered_with_those_there_are(name):
    sentence = refusal(registry.function, FIGURES, name, "experiment.figure", "draw")
    said, _, expected = sentence.partition(": expected one of ")
    assert said.startswith("experiment.figure=")
    assert "fig1, fig2" in expected


@pytest.mark.parametrize(
    ("taken", "packages", "owner"),
    [("fig1", ["two"], "Headroom"), ("mine", ["one", "two"], "the package one")],
)
def test_a_name_that_stands_for_two_things_is_one_sentence(
    installed, taken, packages, owner
):
    for package in packages:
        installed(package, "", {"headroom.figures": f"{taken} = {package}"})
    told = f"figure {taken}: {owner} and the package two both register"
    assert told in refusal(names, FIGURES)


TAKES = """
import os, sys
print("hello")
os.write(1, b"more")
os.close(0)
sys.stdin.close()
sys.stdout = sys.stderr
def draw(table): return table
"""


def test_a_package_that_prints_or_takes_the_streams_leaves_them_as_they_were(installed):
    """This needs a new process, since pytest replaces the streams."""
    module = installed("takes", TAKES, {"headroom.figures": "takes = takes"})
    source = (
        "import sys; from sweeper.store import registry; "
        "draw = registry.function(registry.FIGURES, 'takes', 'key', 'draw'); "
        "print(draw(sys.stdin.read()))"
    )
    path = f"{registry.ROOT}:{module.parents[1]}"
    done = python("-c", source, input="the input", env={"PYTHONPATH": path})
    assert done.stdout == "the input\n"
    assert done.stderr == "morehello\n"  # print() is buffered, os.write() is not


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (
            "import time; time.sleep(60)",
            "the import took more than 0.1 seconds",
        ),
        ("raise SystemExit(3)", "SystemExit: 3"),
        (r"raise ValueError('\x1b[31m')", r"ValueError: \x1b"),  # colours the terminal
        (
            "import os; os._exit(0)",
            "ended the Python process with exit code 0",
        ),
        (
            "import os; os.kill(os.getpid(), 9)",
            "ended the Python process with exit code -9",
        ),
    ],
)
def test_a_package_that_hangs_or_ends_at_its_import_is_named(
    installed, monkeypatch, source, told
):
    if "took" in told:
        monkeypatch.setattr(importing, "LONGEST_S", 0.1)
    installed("awkward", source, {"headroom.figures": "awkward = awkward"})
    sentence = refusal(registry.function, FIGURES, "awkward", "key", "draw")
    assert "the package awkward " in sentence
    assert told in sentence


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("class _Private(Exception): ...", "none"),
        ("from filelock import Timeout", "none"),
        ("class A(Exception): ...\nclass B(Exception): ...", "A, B"),
    ],
)
def test_a_module_has_exactly_one_class_of_its_kind(installed, source, found):
    package = f"classes_{len(source)}"
    installed(package, source, {"headroom.attention": f"{package} = {package}"})
    told = f"exactly one public Exception in {package}, found {found}"
    assert told in refusal(registry.class_of, ATTENTION, package, "key", Exception)


def test_of_an_outside_thing_its_package_and_its_source_are_told(installed):
    module = installed("mine", "SIZE = 1", {"headroom.attention": "wide = mine"})
    before = made_of(ATTENTION, "wide")
    assert before == {
        "name": "attention variant wide", "package": "mine", "version": "1.2.3",
        "sha256": before["sha256"],
    }  # fmt: skip
    assert before == made_of(ATTENTION, "wide")
    # The digest is that of the whole package, so another module of it counts, too.
    (module.parent / "helper.py").write_text("SIZE = 2")
    installed.forget()
    assert made_of(ATTENTION, "wide")["sha256"] != before["sha256"]
    assert "mine" not in sys.modules
    # The first name is Headroom's own. The others are unknown.
    for none in ("multi_head", "nope", None):
        assert made_of(ATTENTION, none) == {}


def test_yaml_of_a_package_is_read_unless_one_of_ours_would_hide_it(installed):
    module = installed(
        "mine", "raise AssertionError('imported')", {"headroom.conf": "m = mine.conf"}
    )
    folder = module.parent / "conf" / "experiment"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").touch()
    assert registry.folders_of_conf() == {"m": folder.parent}
    (folder / "fig1.yaml").touch()
    told = "have a file experiment/fig1.yaml"
    assert told in refusal(registry.folders_of_conf)
