"""Links planted in a store are never followed: nothing is written, removed or read through one."""

import json

import pytest

from sweeper.store.attempts import claim_attempt
from sweeper.store.errors import UserError
from sweeper.store.files import make_directory
from sweeper.store.liveness import Watcher, identity
from sweeper.store.runs import Run, RunStore
from tasks.synthetic.families import World
from tasks.synthetic.samples import LM1B
from tasks.text.tokenizer import load_tokenizer, save_tokenizer, train_bpe
from tasks.training.progress import leftovers, remove_all

LINES = ["one word and another", "one word more"]


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
    (tmp_path / "tables").symlink_to(stranger)
    with pytest.raises(UserError, match="no symbolic link"):
        make_directory(tmp_path / "tables")
    (tmp_path / "all").symlink_to(stranger)  # the owner's own choice of where everything lies
    RunStore(tmp_path / "all").check_writable()
    assert len(contents(stranger)) == 3


def test_linked_checkpoints_are_a_strangers(stranger, tmp_path):
    run = Run(tmp_path / "outputs" / "runs" / "a")
    attempt = claim_attempt(run.path / "attempts", {}, Watcher())
    dead = identity() | {"pid_started": -1}
    (attempt.path / "attempt.json").write_text(json.dumps(dead))
    attempt.checkpoint_dir.rmdir()
    attempt.checkpoint_dir.symlink_to(stranger)
    before = contents(stranger)
    assert run.checkpoints() == []
    assert leftovers(run) == []
    remove_all(run)
    run.attempts()[0].discard_leftovers()
    assert contents(stranger) == before


def test_a_tokenizer_is_written_beside_planted_links(stranger, tmp_path):
    tokenizer = train_bpe(LINES, 263)
    names = ("tokenizer.json", "tokenizer.json.sha256")
    for name in (*names, *(f"{name}.part" for name in names)):
        (tmp_path / name).symlink_to(stranger / "notes")
    save_tokenizer(tokenizer, tmp_path / "tokenizer.json")
    assert contents(stranger)["notes"] == "notes"
    assert load_tokenizer(tmp_path / "tokenizer.json").to_str() == tokenizer.to_str()


def test_a_sample_is_not_written_through_a_link(stranger, tmp_path):
    (tmp_path / "sample").symlink_to(stranger)
    with pytest.raises(UserError, match="no symbolic link"):
        LM1B.write(tmp_path / "sample", 503, World(5, 7))
    assert len(contents(stranger)) == 3
