"""The client of the size server, a process that imports torch on behalf of the sweeper.

The sweeper never imports torch. It sends questions to `python -m tasks.size_server`, each as one
line of JSON. Most questions ask for the size of a model, or for facts about the data of a config.
The question "fork" makes the server start a job: a process that trains a run or prepares its data.
Forked jobs start fast, since the server has already imported torch.
"""

import itertools
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from sweeper.store.errors import UserError
from sweeper.store.registry import ROOT

# Give each job one thread, because parallel jobs with more threads slow each other down. Numeric
# libraries read these variables when they are loaded.
SINGLE_THREADED = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
}
# After this many seconds without an answer, send SIGCONT to the server, since Ctrl-Z or SIGSTOP may
# have stopped it.
CONTINUE_S = 2.0
UNKNOWN = -1  # the reported exit code of a job if the server ended before the job

Answers = dict[int, Future[dict[str, Any]]]
"""The futures of answers that have not arrived yet, keyed by the id of the question."""


class Gone(UserError):
    """Raised if the size server ended before it answered."""

    def __init__(self) -> None:
        super().__init__(
            "the process that builds the models (tasks.size_server) ended; read the reason in its "
            "output above."
        )


class SizeServer:
    """A client of the size server. It starts the server with the first question.

    Call `close` at the end, for example with `contextlib.closing`.

    Attributes:
        code: the folder with the code that the server executes. A change takes effect when the
            server is started again.
        exits: a queue that receives a pair (job id, exit code) when a job ends. If the server ends
            first, its jobs are reported with the exit code UNKNOWN, although they may still run.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._numbers = itertools.count(1)
        self._answers: Answers = {}
        self.code = ROOT
        self.exits: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()

    def tell(self, question: Mapping[str, Any]) -> None:
        """Send a question and do not wait for the answer. The server handles questions in order.

        If the server has ended, drop the question. The next question starts another server.
        """
        with suppress(Gone):
            self._send(question)

    def ask(self, questions: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Send questions and return their answers in order.

        Raise Gone if the server ends before it has answered all of them.
        """
        waiting = [self._send(question) for question in questions]
        # Without SIGCONT, the sweep would wait for ever for a server that a signal has stopped.
        while wait(waiting, CONTINUE_S).not_done:
            if self._process is not None:
                self._process.send_signal(signal.SIGCONT)
        return [one.result() for one in waiting]

    def fork(
        self, target: str, argument: Path, *, environment: Mapping[str, str], log: Path
    ) -> int:
        """Fork a process for a job. Return the id of the job.

        Pass this id to `exit_code` or `signal`. The queue `exits` reports it when the job ends.

        Args:
            target: "train" or "prepare".
            argument: the folder of the run.
            environment: environment variables to set in the process.
            log: the file for its stdout and stderr.

        Raises:
            UserError: the job could not be started.
        """
        question = {
            "op": "fork",
            "target": target,
            "argument": str(argument),
            "environment": dict(environment),
            "log": str(log),
        }
        try:
            [answer] = self.ask([question])
        except Gone:
            # The server has ended. Asking again starts a new one.
            [answer] = self.ask([question])
        if "error" in answer:
            raise UserError(str(answer["error"]))
        job: int = answer["id"]
        return job

    def exit_code(self, job: int) -> int:
        """Wait for the end of `job`, and return its exit code. No other job may be running."""
        ended, code = self.exits.get()
        assert ended == job
        return code

    def signal(self, job: int, number: int) -> None:
        """Send the signal `number` to a job."""
        self.ask([{"op": "signal", "of": job, "signal": number}])

    def close(self) -> None:
        """End the server by closing its stdin. Its forked jobs continue."""
        process, self._process = self._process, None
        if process is not None and process.stdin is not None:
            with suppress(BrokenPipeError):
                process.stdin.close()

    def _send(self, question: Mapping[str, Any]) -> Future[dict[str, Any]]:
        process, number = self.start(), next(self._numbers)
        waiting = self._answers[number] = Future()
        message = json.dumps({"id": number, **question})
        try:
            print(message, file=process.stdin, flush=True)
        except BrokenPipeError:
            raise Gone from None
        return waiting

    def start(self) -> subprocess.Popen[str]:
        """Return the server's process, and start it if it is not running."""
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
                start_new_session=True,  # so that Ctrl-C reaches only the sweep, which stops jobs
            )
            self._answers = {}
            known = (self._process, self._answers)
            threading.Thread(target=self._listen, args=known, daemon=True).start()
        return self._process

    def _listen(self, process: subprocess.Popen[str], answers: Answers) -> None:
        """Read the messages of a server until it ends. Resolve `answers`, and fill `exits`."""
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
                    waiting.set_result(message)
        process.wait()
        for waiting in list(answers.values()):
            waiting.set_exception(Gone())
        for job in jobs:
            self.exits.put((job, UNKNOWN))


def _parsed(line: str) -> dict[str, Any]:
    """Parse a message of the server. Return {} for other text, such as a warning of Python."""
    try:
        message = json.loads(line)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


@cache
def size_server() -> SizeServer:
    """Return the one client of the size server that this process uses."""
    return SizeServer()
