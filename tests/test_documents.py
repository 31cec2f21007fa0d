"""Tests that links, targets, commands, experiments and code named in the documents exist."""

import json
import re
import tomllib
from importlib.util import find_spec

import pytest
import yaml

from sweeper.__main__ import main
from tests.end_to_end.test_sweep import ROOT, python

DOCUMENTS = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("examples/*/*.md"),  # not of hidden folders below, which tools leave
]
GUIDES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md")]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
TARGETS = set(
    re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
)

OURS = ("sweeper", "tasks", "benchmarks", "tests", "headroom_attention")

FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
ROAD = re.compile(r"^\| (\d) \| (.+?) \| (.+?) \|", re.MULTILINE)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def name(path):
    return str(path.relative_to(ROOT))


def anchors(document):
    """Return the anchors that GitHub and MkDocs make for headings."""
    headings = HEADING.findall(FENCED.sub("", document.read_text("utf-8")))
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in plain}


def code(documents):
    """Return all code blocks and code spans of the documents."""
    return "\n".join(
        found for one in documents for found in CODE.findall(one.read_text("utf-8"))
    )


@pytest.mark.parametrize("document", DOCUMENTS, ids=name)
def test_no_link_is_dead(document):
    links = LINK.findall(FENCED.sub("", document.read_text("utf-8")))
    assert len(links) > 10 or document != ROOT / "README.md"
    for link in links:
        target, _, anchor = link.partition("#")
        if target.startswith(("https://", "http://", "mailto:")):
            continue
        path = (document.parent / target).resolve() if target else document
        assert path.is_relative_to(ROOT), f"{link} leads out of the project"
        assert path.exists(), link
        assert not anchor or anchor in anchors(path), link


@pytest.fixture
def offered(capsys):
    """Return a function that returns the commands in the help of a program."""

    def offered(**program):
        with pytest.raises(SystemExit):
            main(["--help"], **program)
        listed = capsys.readouterr().out
        return set(re.findall(r"^    ([a-z]+)\b", listed, re.MULTILINE))

    return offered


def test_every_command_that_is_named_is_there(offered):
    said = code(GUIDES)
    targets = set(re.findall(r"\bmake ([a-z]+)\b", said))
    assert {"demo", "paper", "test"} <= targets <= TARGETS
    commands = set(re.findall(r"python -m sweeper ([a-z]+)", said))
    assert len(commands) > 5
    assert commands <= offered()


def test_every_module_that_is_said_to_run_does():
    """A package runs only if it has a `__main__`."""
    files = [*GUIDES, ROOT / "Makefile", *ROOT.glob("conf/**/*.yaml")]
    for folder in OURS:
        files += (ROOT / folder).rglob("*.py")
    said = "\n".join(one.read_text("utf-8") for one in files)
    named = rf"-m ((?:{'|'.join(OURS)})(?:\.\w+)*)(?!\.{{)"  # not of an f-string
    modules = set(re.findall(named, said))
    assert len(modules) > 10
    assert [module for module in sorted(modules) if not _runs(module)] == []


def _runs(module):
    found = find_spec(module)
    if found is not None and found.submodule_search_locations:
        found = find_spec(f"{module}.__main__")
    return found is not None


def test_every_command_that_headroom_offers_runs(offered):
    commands = offered(program="headroom")
    assert {"sweep", "train", "export", "status"} <= commands
    for command in commands:
        shown = python("-m", "headroom_attention", command, "--help")
        assert shown.stderr == "", command


def test_every_experiment_that_is_named_is_there():
    named = ",".join(re.findall(r"(?<!\.)\bexperiment=([\w,]+)", code(GUIDES)))
    experiments = {*named.split(",")} - {
        "mine",
        "mytext",
        "decided",
    }  # of the examples
    assert len(experiments) > 5
    assert experiments <= {path.stem for path in ROOT.glob("conf/experiment/*.yaml")}


def test_the_road_leads_through_existing_code():
    stops = ROAD.findall((ROOT / "CONTRIBUTING.md").read_text("utf-8"))
    assert [int(number) for number, _, _ in stops] == list(range(1, 10))
    for _, files, names in stops:
        for file, name in zip(files.split(", "), names.split(", "), strict=True):
            text = (ROOT / file.strip("`")).read_text("utf-8")
            last = name.strip("`").rpartition(".")[2]
            assert re.search(rf"(?:def|class) {last}\b", text), (file, name)


def test_what_a_shell_would_read_itself_is_quoted():
    documents = [one for one in DOCUMENTS if one.name != "CHANGELOG.md"]
    typed = re.sub(r"```python\n.*?```", "", code(documents), flags=re.DOTALL)
    assert re.findall(r"(?:^|[\s`])[\w.+~/]+=[\[{]\S*", typed, re.MULTILINE) == []


def test_the_site_leads_to_every_guide():
    nav = json.dumps(yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"])
    shown = set(re.findall(r'"([^"]+\.md)"', nav))
    assert [page for page in shown if not (ROOT / page).is_file()] == []
    assert {name(document) for document in DOCUMENTS} - shown == set()


def test_the_citation_is_of_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    for key in ("version", "license"):
        assert citation[key] == PROJECT[key]


def test_the_container_goes_the_way_of_the_makefile():
    lines = (ROOT / "Dockerfile").read_text("utf-8")
    # What `make install` reads is there before it, and the rest after it.
    copied = re.findall(r"^COPY (\S+)", lines, re.MULTILINE)
    assert copied == ["Makefile", "requirements", "."]
    [install] = re.findall(r"^RUN make (\w+)", lines, re.MULTILINE)
    [start] = re.findall(r'^CMD \["make", "(\w+)"', lines, re.MULTILINE)
    assert {install, start} <= TARGETS
