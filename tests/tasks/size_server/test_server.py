"""The size server answers requests, forks independent jobs, and ends after its last job."""

import json
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from sweeper.size_server import SizeServer
from sweeper.store.runs import State
from tasks.size_server.sizes import size
from tests.conftest import ROOT
from tests.tasks.jobs import config, freeze, log_of, science
from tests.tasks.small import local
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def server():
    with closing(SizeServer()) as server:
        assert "error" not in ask(server, op="preload")
        yield server


def ask(server, **question):
    [answer] = server.ask([question])
    return answer


def fork(server, run, **environment):
    log = run.outputs / "terminal.txt"
    return server.fork("train", run.path, environment=environment, log=log)


def open_pipes(pid):
    files = {str(link.readlink()) for link in Path(f"/proc/{pid}/fd").iterdir()}
    return {file for file in files if file.startswith("pipe:")}


def pid_of(run):
    """Wait until a job has started, and return its process id."""
    wait_until((run.path / "attempts" / "0001" / "log.txt").exists, "a job's log")
    return run.attempts()[0].info()["pid"]


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (
            {"op": "size", "config": config({"model.heads": 0})},
            "model.heads=0: expected a whole",
        ),
        ({"op": "size"}, "KeyError"),
        (
            {"op": "data", "config": config({"data": local("/nowhere")})},
            "data.root=/nowhere: expected",
        ),
        ({"op": "seize"}, "op=seize: expected size, speed, data"),  # no such question
    ],
)
def test_a_wrong_question_gets_one_sentence_and_the_next_one_an_answer(
    request_, words, server
):
    error = ask(server, **request_)["error"]
    assert error.startswith(words)
    assert "\n" not in error
    assert ask(server, op="size", config=config())["size"] == size(config())


def test_it_says_what_the_text_is(server, prepared):
    answer = ask(server, op="data", config=config())
    assert answer["digest"].startswith("sample:")
    assert "1,009 sentences" in answer["describe"]
    assert (prepared / "data" / answer["prepared"]).is_dir()


def test_a_forked_job_trains_as_any_other_and_leaves_the_server_single_threaded(
    server, outputs, undisturbed
):
    run = freeze(outputs)
    assert server.exit_code(fork(server, run)) == 0
    assert science(run) == undisturbed
    assert "step 19: train/loss" in log_of(run)
    assert len(list(Path(f"/proc/{server.start().pid}/task").iterdir())) == 1


def test_a_job_is_in_a_group_of_its_own_with_its_environment(server, outputs):
    run = freeze(outputs, {"trainer.steps": 10**6})
    job, own = fork(server, run, HEADROOM_TEST="seven"), server.start().pid
    try:
        pid = pid_of(run)
        assert os.getpgid(pid) == pid != os.getpgid(own)
        shared = open_pipes(pid) & open_pipes(own)
        assert not shared, "it would keep the protocol open after the server"
    finally:
        server.signal(job, signal.SIGTERM)
        assert server.exit_code(job) == 75
    assert run.status().state is State.INTERRUPTED
    assert "error" not in ask(server, op="signal", of=job, signal=signal.SIGTERM)


def test_when_nobody_listens_any_more_it_ends_with_its_last_job(tmp_path):
    """A killed sweep closes stdin and stdout of the server. SizeServer.close closes only stdin."""
    runs = [freeze(tmp_path / name) for name in ("one", "two")]
    command = [sys.executable, "-m", "tasks.size_server"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=ROOT, **pipes) as server:
        for number, run in enumerate(runs):
            asked = {
                "id": number,
                "op": "fork",
                "target": "prepare",
                "argument": str(run.path),
            }
            print(json.dumps(asked), file=server.stdin, flush=True)
            assert "pid" in json.loads(server.stdout.readline())
        server.stdout.close()
        server.stdin.close()
        assert server.wait(timeout=60) == 0
    for run in runs:
        (folder,) = [path for path in (run.outputs / "data").iterdir() if path.is_dir()]
        assert (folder / "test" / "rows.json").exists()
