"""No name and no link makes the program write outside the outputs folder, or run anything."""

from functools import partial

import pytest

from sweeper.__main__ import main
from sweeper.plan.overrides import read
from sweeper.results.paper_tables import write_paper_table
from sweeper.results.table import Table, write_table
from sweeper.store.attempts import claim_attempt
from sweeper.store.errors import UserError, sanitize
from sweeper.store.files import make_directory, publish_with_checksum
from sweeper.store.liveness import Watcher, identity
from sweeper.store.plans import stem, write_plan
from sweeper.store.records import Record
from sweeper.store.runs import Run, RunStore
from tasks import train
from tasks.synthetic.samples import LM1B, World
from tasks.text.tokenizer import load_tokenizer, save_tokenizer, train_bpe
from tasks.training.progress import remove_all
from tests.policies import shipped
from tests.refusals import refusal
from tests.sweeper.store.test_files import HOSTILE_NAMES

NAMES = [
    *HOSTILE_NAMES,
    "../victim",
    "../../victim",
    "a/../../victim",
    "/tmp/victim",
    "file:///tmp/victim",
    "..\\victim",
    "victim ",
    "--help",
    "|touch victim",
    "`touch victim`",
    "> victim",
    "victim\r\nX: 1",
    "\u202egpj.exe",
    "<script>alert(1)</script>",
    "=cmd()",
]


def files(folder, outputs):
    """Return what is in a folder, but not what is in the outputs folder below it."""
    return {
        f"{path} {path.read_bytes()!r}" if path.is_file() else str(path)
        for path in folder.rglob("*")
        if not path.is_relative_to(outputs)
    }


def command(word, outputs, name):
    main([word, "--outputs", str(outputs), "--", name])


def told_table(outputs, name):
    about = dict.fromkeys(("title", "metric", "figure", "x"), name)
    about["arms"] = {name: {"label": name, "metric": name}}
    named = dict.fromkeys(("experiment", "arm", "point", "run"), name)
    row = {**named, "seed": 0, name: 0.5}
    names = {name: {name: name}}
    table = Table(name, about, {"command": name}, names, list(row), [row])
    path = write_table(outputs, table)
    assert path.parent == outputs / "tables"
    write_paper_table(outputs, table)


def frozen(outputs, name):
    RunStore(outputs).freeze(Record(name, {}))


PLACES = {
    "run id": frozen,
    "run directory": lambda outputs, name: train.main(name),
    "experiment in a table": told_table,
    "experiment in a plan": lambda outputs, name: write_plan(
        outputs, {"experiments": {name: {}}}
    ),
    **{
        f"sweeper {word}": partial(command, word)
        for word in ("status", "collect", "draw", "report")
    },
}


@pytest.mark.parametrize("place", PLACES)
def test_no_name_becomes_a_path_or_a_command(tmp_path, monkeypatch, capsys, place):
    """The outputs folder is in the folder to work in, which has a victim beside it."""
    victim, work = tmp_path / "victim", tmp_path / "work"
    victim.write_text("whole")
    work.mkdir()
    monkeypatch.chdir(work)
    outputs = work / "outputs"
    before = files(tmp_path, outputs)
    for name in NAMES:
        try:
            PLACES[place](outputs, name)
        except (UserError, SystemExit):
            pass
        except ValueError:  # no argument of a program can be one of these
            assert name in ("a\0b", "\udcff")
        assert files(tmp_path, outputs) == before, name
    said = capsys.readouterr()
    assert "\x1b" not in said.out + said.err
    if outputs.exists():
        assert not any(path.is_symlink() for path in outputs.rglob("*"))
    victim.write_text("touched")
    assert files(tmp_path, outputs) != before, "a change would be noticed"


def test_different_names_never_share_a_file_and_are_shown_on_one_line():
    names = {*NAMES, "fig1", "x-y", "x/y", "x.y", "é", "x" * 300}
    assert len({stem(name) for name in names}) == len(names) > 40
    assert stem("fig1") == "fig1"
    assert all(sanitize(name).isprintable() for name in names)


AWAY = ("../../evil", "/tmp/evil", "a/../../evil", "[fig1,../../evil]", "fig1,../../evil", "~/evil",
        "'../../evil'", "${paths.outputs}")  # fmt: skip


@pytest.mark.parametrize(
    "key",
    [
        "experiment",
        "model",
        "model/attention",
        "hydra/launcher",
        "+x/y",
        "+experiment/../../x",
    ],
)
@pytest.mark.parametrize("value", AWAY)
def test_a_yaml_file_is_chosen_by_name_from_its_folder(key, value):
    told = refusal(read, [f"{key}={value}"], shipped(), max_points=9)
    reasons = ("choose it by name", "cannot be read as an override", "cannot be set")
    assert any(reason in told for reason in reasons)


@pytest.fixture
def stranger(tmp_path):
    """A folder of somebody else's, with files that look like this store's own."""
    folder = tmp_path / "stranger"
    folder.mkdir()
    for name in (".step-00000007.ckpt.0.tmp", "step-00000007.ckpt", "notes"):
        (folder / name).write_text(name)
    return folder


def contents(folder):
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_a_linked_folder_is_not_written_through(stranger, tmp_path):
    (tmp_path / "linked").symlink_to(stranger)
    for write in (make_directory, lambda folder: LM1B.write(folder, 503, World(5, 7))):
        assert "symbolic link" in refusal(write, tmp_path / "linked")
    (tmp_path / "all").symlink_to(
        stranger
    )  # the owner's own choice of where everything lies
    RunStore(tmp_path / "all").check_writable()
    assert len(contents(stranger)) == 3


def test_linked_checkpoints_are_a_strangers(stranger, tmp_path):
    run = Run(tmp_path / "outputs" / "runs" / "a")
    attempt = claim_attempt(run.path / "attempts", [], {}, Watcher())
    dead = identity() | {"pid_started": -1}
    publish_with_checksum(attempt.path / "attempt.json", dead)
    attempt.checkpoint_dir.rmdir()
    attempt.checkpoint_dir.symlink_to(stranger)
    before = contents(stranger)
    assert run.checkpoints() == []
    remove_all(run)
    run.attempts()[0].discard_leftovers()
    assert contents(stranger) == before


def test_a_tokenizer_is_written_beside_planted_links(stranger, tmp_path):
    tokenizer = train_bpe(["one word and another", "one word more"], 263)
    names = ("tokenizer.json", "tokenizer.json.sha256")
    for name in (*names, *(f"{name}.part" for name in names)):
        (tmp_path / name).symlink_to(stranger / "notes")
    save_tokenizer(tokenizer, tmp_path / "tokenizer.json")
    assert contents(stranger)["notes"] == "notes"
    assert load_tokenizer(tmp_path / "tokenizer.json").to_str() == tokenizer.to_str()
