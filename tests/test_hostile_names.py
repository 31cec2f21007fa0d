"""Whatever is given for a name, nothing is written outside the outputs folder, and nothing runs."""

import os
from pathlib import Path

import pytest

from sweeper.__main__ import main
from sweeper.hydra_section import composer
from sweeper.plan.overrides import read
from sweeper.results.paper_tables import write_paper_table
from sweeper.results.table import Table, stem, write_table
from sweeper.store.errors import UserError, sanitize
from sweeper.store.plans import write_plan
from sweeper.store.runs import RunStore
from tasks import train
from tests.sweeper.store.test_files import HOSTILE_NAMES

NAMES = [
    *HOSTILE_NAMES.values(),
    *("../victim", "../../victim", "a/../../victim", "./../victim", "runs/../../victim"),
    *("/tmp/victim", "//tmp/victim", "file:///tmp/victim", "C:\\victim", "..\\victim", "CON"),
    *("victim.", "victim ", " victim", "-o", "--help", "|touch victim", "`touch victim`", "&touch"),
    *("> victim", "victim\r\nX: 1", "\u202egpj.exe", "<script>alert(1)</script>", "{{7*7}}"),
    "=cmd()",
]


@pytest.fixture
def sandbox(tmp_path, monkeypatch):
    """A folder to work in, with the outputs folder inside and a victim beside it."""
    (tmp_path / "victim").write_text("whole")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return tmp_path


def files(folder):
    outputs = folder / "work" / "outputs"
    return {
        f"{path} {path.read_bytes()!r}" if path.is_file() else str(path)
        for path in folder.rglob("*")
        if not path.is_relative_to(outputs)
    }


def command(word):
    def call(outputs, name):
        return main([word, "--outputs", str(outputs), "--", name])

    return call


def told_table(outputs, name):
    arms = {name: {"label": name, "metric": name}}
    about = {"title": name, "metric": name, "arms": arms, "figure": name, "x": name}
    row = {"experiment": name, "arm": name, "point": name, "seed": 0, "run": name, name: 0.5}
    table = Table(name, about, {"command": name}, {name: {name: name}}, list(row), [row])
    path = write_table(outputs, table)
    assert path.parent == outputs / "tables"
    write_paper_table(outputs, table)


def frozen(outputs, name):
    RunStore(outputs).freeze({"id": name, "config": {}})


PLACES = {
    "run id": frozen,
    "run directory": lambda outputs, name: train.main(name),
    "experiment in a table": told_table,
    "experiment in a plan": lambda outputs, name: write_plan(outputs, {"experiments": {name: {}}}),
    **{f"sweeper {word}": command(word) for word in ("status", "collect", "draw", "report")},
}


@pytest.mark.parametrize("place", PLACES)
def test_no_name_becomes_a_path_or_a_command(sandbox, capsys, place):
    before = files(sandbox)
    outputs = sandbox / "work" / "outputs"
    for name in NAMES:
        try:
            PLACES[place](outputs, name)
        except (UserError, SystemExit):
            pass
        except ValueError:  # no argument of a program can be one of these
            assert name in ("a\0b", "\udcff")
        assert files(sandbox) == before, name
    said = capsys.readouterr()
    assert "\x1b" not in said.out + said.err
    if outputs.exists():
        assert not any(path.is_symlink() for path in outputs.rglob("*"))


def test_there_are_fifty_names():
    assert len(set(NAMES)) >= 50
    assert len({stem(name) for name in NAMES}) == len(set(NAMES))
    assert all(sanitize(name).isprintable() for name in NAMES)


AWAY = ("../../evil", "/tmp/evil", "a/../../evil", "[fig1,../../evil]", "fig1,../../evil", "~/evil",
        "'../../evil'", "${paths.outputs}")  # fmt: skip


@pytest.mark.parametrize(
    "key", ["experiment", "model", "model/attention", "hydra/launcher", "+x/y"]
)
@pytest.mark.parametrize("value", AWAY)
def test_a_yaml_file_is_chosen_by_name_from_its_folder(key, value):
    with pytest.raises(UserError, match=r"choose it by name|cannot be read"):
        read([f"{key}={value}"], composer(), max_points=9)


def test_a_group_that_climbs_out_of_conf_is_refused():
    with pytest.raises(UserError, match=r"choose it by name|cannot be read|cannot be set"):
        read(["+experiment/../../x=evil"], composer(), max_points=9)


def test_the_victim_would_be_noticed(sandbox):
    before = files(sandbox)
    Path(os.path.relpath(sandbox / "victim")).write_text("touched")
    assert files(sandbox) != before
