"""The warm server answers what it is asked, forks jobs that are their own, and outlives nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sweeper.store.runs import State
from tasks.size_server.sizes import size
from tests.conftest import ROOT
from tests.tasks.jobs import config, freeze, science


class Client:
    """Speaks the server's protocol."""

    def __init__(self):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tasks.size_server"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self._number = 0
        assert self.read() == {"ready": True}

    def send(self, **request):
        self._number += 1
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"id": self._number, **request}) + "\n")
        self.process.stdin.flush()
        return self._number

    def read(self):
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"the server ended with {self.process.wait()}"
        return json.loads(line)

    def ask(self, **request):
        number = self.send(**request)
        answer = self.read()
        assert answer.pop("id") == number
        return answer

    def fork(self, target, run, **environment):
        log = str(run.parents[1] / "terminal.txt")
        number = self.send(
            op="fork", target=target, argument=str(run), environment=environment, log=log
        )
        answer = self.read()
        assert answer["id"] == number
        return number, int(answer["pid"])

    def threads(self):
        return len(list(Path(f"/proc/{self.process.pid}/task").iterdir()))

    def end(self):
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.process.stdin.close()
        return self.process.wait(timeout=60)


@pytest.fixture(scope="module")
def server():
    client = Client()
    assert client.ask(op="preload")["code"]
    yield client
    if client.process.poll() is None:
        assert client.end() == 0


def open_pipes(pid):
    files = {str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()}
    return {file for file in files if file.startswith("pipe:")}


def until(path):
    deadline = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.01)


def test_it_says_how_big_a_config_is(server):
    assert server.ask(op="size", config=config()) == {"size": size(config())}


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        ({"op": "size", "config": config({"model.heads": 0})}, "model.heads=0: expected a whole"),
        ({"op": "size", "config": {}}, "task=null: expected a group of keys"),
        ({"op": "size"}, "KeyError"),
        ({"op": "seize"}, "op=seize: expected size, data"),
        ({"op": "fork", "target": "os"}, "target=os: expected one of train, prepare"),
    ],
    ids=["wrong value", "nothing", "no config", "no such question", "no such job"],
)
def test_a_wrong_question_gets_one_sentence_and_the_next_one_an_answer(request_, words, server):
    error = server.ask(**request_)["error"]
    assert error.startswith(words)
    assert "\n" not in error
    assert "size" in server.ask(op="size", config=config())


def test_it_says_what_the_text_is(server, prepared):
    answer = server.ask(op="data", config=config())
    assert answer["digest"].startswith("sample:")
    assert "1,009 sentences" in answer["describe"]
    assert (prepared / "data" / answer["prepared"]).is_dir()


def test_text_that_is_not_there_is_one_sentence(server, tmp_path):
    missing = tmp_path / "nowhere"
    changes = {"data.source": "local", "data.root": str(missing)}
    error = server.ask(op="data", config=config(changes))["error"]
    assert error.startswith(f"data.root={missing}: expected")


def test_a_forked_job_trains_as_any_other_and_leaves_the_server_single_threaded(
    server, outputs, undisturbed
):
    run = freeze(outputs)
    number, _ = server.fork("train", run.path)
    assert server.read() == {"id": number, "exited": 0}
    assert science(run) == undisturbed
    assert "step 19: train/loss" in run.attempts()[0].log_path.read_text()
    assert server.threads() == 1


def test_a_job_is_in_a_group_of_its_own_with_its_environment(server, outputs):
    run = freeze(outputs, {"trainer.steps": 10**6})
    number, pid = server.fork("train", run.path, HEADROOM_TEST="seven")
    try:
        until(run.path / "attempts" / "0001" / "log.txt")
        assert os.getpgid(pid) == pid != os.getpgid(server.process.pid)
        shared = open_pipes(pid) & open_pipes(server.process.pid)
        assert not shared, "it would keep the protocol open after the server"
    finally:
        assert server.ask(op="signal", of=number, signal=signal.SIGTERM) == {"signalled": True}
        assert server.read() == {"id": number, "exited": 75}
    assert run.status().state is State.INTERRUPTED
    assert server.ask(op="signal", of=number, signal=signal.SIGTERM) == {"signalled": False}


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV], ids=lambda n: n.name)
def test_a_job_that_dies_takes_nothing_with_it(number, server, outputs):
    run = freeze(outputs, {"trainer.steps": 10**6})
    job, pid = server.fork("train", run.path)
    until(run.path / "attempts" / "0001" / "log.txt")
    os.kill(pid, number)
    assert server.read() == {"id": job, "exited": -number}
    assert "size" in server.ask(op="size", config=config())


def test_when_nobody_listens_any_more_it_ends_with_its_last_job(server, tmp_path):
    """The last test: it ends the server."""
    runs = [freeze(tmp_path / name) for name in ("one", "two")]
    for run in runs:
        server.fork("prepare", run.path)
    assert server.end() == 0
    for run in runs:
        (folder,) = [path for path in (run.outputs / "data").iterdir() if path.is_dir()]
        assert (folder / "test" / "rows.json").exists()
