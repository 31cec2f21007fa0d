"""The other side of the house: a process that knows models and tasks, asked by lines of JSON.

The sweeper never imports torch. What a config amounts to (its size, its data) and the warm forking
of jobs are asked of `python -m tasks.size_server`, which is started when the first question comes.
"""

import itertools
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from sweeper.store.errors import UserError
from sweeper.store.registry import ROOT

# Set before any numeric library loads: threads of several processes spin against each other.
SINGLE_THREADED = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
CONTINUE_S = 2.0  # seconds without an answer before a process that may be stopped is continued
MANY = 500  # questions: answered in some seconds
UNKNOWN = -1  # the exit code of a job that nobody saw end

Answers = dict[int, Future[dict[str, Any]]]


class Gone(UserError):
    """The end of the size server before it answered."""


class SizeServer:
    """A `tasks.size_server`, started when needed. Close it, as `contextlib.closing` does."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._numbers = itertools.count(1)
        self._answers: Answers = {}
        self._lock = threading.Lock()
        self.code = ROOT  # that the next server starts from
        self.exits: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
        """(request id, exit code) of ended jobs. If the server itself ends: (request id, UNKNOWN)
        of each job it had not reported, which may live on."""

    def tell(self, question: Mapping[str, Any]) -> None:
        """Send a question without waiting for its answer; questions are handled in order.

        If the server is gone the question is dropped; the next one starts another server.
        """
        with suppress(Gone):
            self._send(question)

    def ask(self, questions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Send questions and return their answers in order; Gone if the process ends before."""
        shown: Iterable[Mapping[str, Any]] = questions
        if len(questions) > MANY and sys.stdout.isatty():
            from rich.progress import track

            # The process reads a question when it is free, so the bar shows the answers.
            shown = track(questions, "counting parameters", transient=True)
        waiting = [self._send(question) for question in shown]
        # Stopped, the process would hold up a sweep that is asked to end.
        while wait(waiting, CONTINUE_S).not_done:
            if self._process is not None:
                self._process.send_signal(signal.SIGCONT)
        return [one.result() for one in waiting]

    def fork(
        self, target: str, argument: Path, *, environment: Mapping[str, str], log: Path
    ) -> int:
        """Start a job in a fresh process; return its request id, which comes back in `exits`."""
        question = {
            "op": "fork",
            "target": target,
            "argument": str(argument),
            "environment": dict(environment),
            "log": str(log),
        }
        try:
            [answer] = self.ask([question])
        except Gone:  # killed meanwhile, and another is started for this
            [answer] = self.ask([question])
        if "error" in answer:
            raise UserError(str(answer["error"]))
        job: int = answer["id"]
        return job

    def exit_code(self, job: int) -> int:
        """Wait for the only job that is under way; its exit code."""
        ended, code = self.exits.get()
        assert ended == job
        return code

    def signal(self, job: int, number: int) -> None:
        """Send a signal to a forked job by its request id."""
        self.ask([{"op": "signal", "of": job, "signal": number}])

    def close(self) -> None:
        """Let the process go; jobs it has forked live on."""
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            with suppress(BrokenPipeError):
                process.stdin.close()

    def _send(self, question: Mapping[str, Any]) -> Future[dict[str, Any]]:
        process, number = self.start(), next(self._numbers)
        waiting: Future[dict[str, Any]] = Future()
        with self._lock:
            self._answers[number] = waiting
            assert process.stdin is not None
            try:
                process.stdin.write(json.dumps({"id": number, **question}) + "\n")
                process.stdin.flush()
            except BrokenPipeError:
                raise self._gone() from None
        return waiting

    def start(self) -> subprocess.Popen[str]:
        """Return the process; a new one imports for a second before its first answer."""
        if self._process is not None and self._process.poll() is not None:
            self.close()
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tasks.size_server"],
                cwd=self.code,
                text=True,
                bufsize=1,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, **SINGLE_THREADED},
                start_new_session=True,  # Ctrl-C is this side's to hand on, not the terminal's
            )
            self._answers = {}
            known = (self._process, self._answers)
            threading.Thread(target=self._listen, args=known, daemon=True).start()
        return self._process

    def _listen(self, process: subprocess.Popen[str], answers: Answers) -> None:
        """Hand on what one process says, until it ends."""
        assert process.stdout is not None
        jobs = set()
        with process.stdout as lines:
            for line in lines:
                message = _parsed(line)
                if "exited" in message:
                    jobs.discard(message["id"])
                    self.exits.put((message["id"], message["exited"]))
                elif waiting := answers.pop(message.get("id", 0), None):
                    if "pid" in message:
                        jobs.add(message["id"])
                    waiting.set_result(message)  # what follows it with this id is too late
        process.wait()
        for waiting in list(answers.values()):
            waiting.set_exception(self._gone())
        for job in jobs:
            self.exits.put((job, UNKNOWN))

    def _gone(self) -> Gone:
        return Gone(
            "the model process ended unexpectedly; `python -m tasks.size_server` by hand shows why."
        )


def _parsed(line: str) -> dict[str, Any]:
    """Return a message of the server; empty for text that the interpreter prints at its start."""
    try:
        message = json.loads(line)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


@cache
def size_server() -> SizeServer:
    """The model process of this command."""
    return SizeServer()
