"""The size server: `python -m tasks.size_server` builds models to measure them, and forks jobs.

The server imports PyTorch once, so that forked jobs start without this import. Each request is one
line of JSON on stdin, and each answer is one line of JSON on stdout:

    {"id", "op": "size", "config"}     -> {"id", "size"}
    {"id", "op": "speed"}              -> {"id", "flops_per_second"}
    {"id", "op": "data", "config"}     -> {"id", "digest", "describe", "prepared", "metrics"}
    {"id", "op": "import", "folder", "outputs"} -> {"id", "run"}
    {"id", "op": "preload", "logger"}  -> {"id"}
    {"id", "op": "fork", "target": "train" | "prepare", "argument", "environment", "log"}
                                       -> {"id", "pid"}; when the job ends, {"id", "exited": code}
    {"id", "op": "signal", "of", "signal": number} -> {"id"}

If a request fails, the answer is {"id", "error"} instead.

- "size" builds the model of a run, or interpolates its size.
- "speed" measures the speed of matrix products.
- "data" describes the text of a run, its folder of prepared data, and the metrics of its task.
- "import" imports a model that `transformers` saved in "folder", as a finished run.
- "preload" imports the modules that jobs need, and W&B unless "logger" is "none".
- "fork" starts a job, which calls `main("argument")` of tasks.train or tasks.prepare.
- "signal" sends a signal to the job that the request with the id "of" has started.

After stdin ends, the server exits as soon as its last job has ended. The server has one thread and
never uses a GPU, so that forking is safe. The client sets environment variables, such as
OMP_NUM_THREADS, so that numeric libraries start no threads.
"""

import contextlib
import importlib
import json
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from tasks.process import command_line, freeze_gc

# Handle --help before the slow imports.
if __name__ == "__main__":
    command_line("tasks.size_server", __doc__).parse_args()

from sweeper.store.code import loaded_code

# Read the source code now, before it can be edited. Forked jobs record digests of what is read
# here, because they run the same code.
loaded_code()
try:
    with freeze_gc():
        from tasks.size_server.fork import become_job, forked, import_lightning, preload

        import_lightning()
        from sweeper.store.errors import UserError
        from tasks.data import TaskData
        from tasks.parse import data_of, module_class, parse
        from tasks.size_server.sizes import CountPolynomials, counts, size
        from tasks.size_server.speed import flops_per_second
        from tasks.training.causes import message_of
except (ImportError, OSError, MemoryError) as lacking:
    # An error in Headroom's own modules gets a traceback. Any other error means that the libraries
    # do not work, so print one line instead.
    module = str(getattr(lacking, "name", ""))
    if module.startswith(("sweeper", "models", "tasks")):
        raise
    sys.exit(
        f"error: PyTorch cannot be loaded ({lacking}); install PyTorch again, or raise the limits "
        "that `ulimit -a` shows."
    )

POLL_S = 0.02
"""The time between two checks for exited child processes, in seconds."""

Request = Mapping[str, Any]
Answer = dict[str, Any]


class Server:
    """A loop that answers requests and waits for the processes that it has forked."""

    def __init__(self) -> None:
        # From now on, only answers go to stdout, and the output of libraries goes to stderr. Flush
        # stdout first, so that text that is already buffered cannot mix with answers. The client
        # ignores such text.
        sys.stdout.flush()
        self._answers = os.dup(1)
        os.dup2(2, 1)
        # The request for which each child process was forked, by pid.
        self._children: dict[int, Request] = {}

    @cached_property
    def _polynomials(self) -> CountPolynomials:
        with freeze_gc():
            # The first model that is built imports this package. Importing it here, without garbage
            # collection, is faster.
            importlib.import_module("torch._dynamo")
        return CountPolynomials(counts)

    def serve(self) -> None:
        """Answer requests until stdin has ended and all child processes have exited."""
        rest, listening = b"", True
        while listening or self._children:
            wait_s = POLL_S if self._children else None
            readable, _, _ = select.select([0] if listening else [], [], [], wait_s)
            self._reap()
            if readable:
                data = os.read(0, 1 << 16)
                listening = bool(data)
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._handle(json.loads(line))

    def _handle(self, request: Request) -> None:
        self._answer(request, _result(lambda: self._process(request)))

    def _process(self, request: Request) -> Answer | None:
        """Return the answer to a request, or None if a child process answers the request."""
        match request["op"]:
            case "size":
                return {"size": size(request["config"], self._polynomials.counts)}
            case "speed":
                return {"flops_per_second": flops_per_second()}
            case "data":
                config = request["config"]
                # This imports the task's modules in the server, so that forked jobs need not.
                data = data_of(parse(config))
                self._fork_answer(request, lambda: _about(data, config))
                return None
            case "import":
                self._fork_answer(request, lambda: _imported(request))
                return None
            case "preload":
                preload(request.get("logger", ""))
                return {}
            case "fork":
                return self._fork_job(request)
            case "signal":
                self._signal(request["of"], request["signal"])
                return {}
            case op:
                known = "size, speed, data, import, preload, fork or signal"
                raise UserError(f"op={op}: expected {known}.")

    def _signal(self, job: int, number: int) -> None:
        # SIGKILL must also reach the processes that the job has started.
        kill = os.killpg if number == signal.SIGKILL else os.kill
        for pid, request in self._children.items():
            # The system does not reuse the pid before `_reap` has waited for the process.
            if request["id"] == job:
                kill(pid, number)

    def _answer(self, request: Request, answer: Answer | None) -> None:
        if answer is None:
            return
        line = json.dumps({"id": request["id"], **answer}) + "\n"
        # If the client has ended, the jobs continue without it.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._answers, line.encode())

    def _fork_answer(self, request: Request, work: Callable[[], Answer]) -> None:
        """Answer a request in a child process, because `work` may start threads.

        A process with several threads must not fork.
        """

        def ask() -> int:
            self._answer(request, _result(work))
            return 0

        self._fork(request, ask)

    def _fork_job(self, request: Request) -> Answer:
        def job() -> int:
            os.close(self._answers)
            os.environ.update(request.get("environment") or {})
            module = importlib.import_module(f"tasks.{request['target']}")
            return module.main(request["argument"])

        return {"pid": self._fork(request, job)}

    def _fork(self, request: Request, work: Callable[[], int]) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = forked()
        if pid == 0:
            become_job(work, log=request.get("log"))
        # The child process also makes itself the leader of a process group. Do it here, too, since
        # the client may send a signal to the group before the child process has run.
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        self._children[pid] = request
        return pid

    def _reap(self) -> None:
        for pid in list(self._children):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                request = self._children.pop(pid)
                code = os.waitstatus_to_exitcode(status)
                if request["op"] == "fork":
                    self._answer(request, {"exited": code})
                elif code:
                    text = f"the process that should answer exited with code {code}"
                    remedy = "read the last lines that it printed above for the reason"
                    self._answer(request, {"error": f"{text}; {remedy}."})


def _result(work: Callable[[], Answer | None]) -> Answer | None:
    """Return the result of `work`. If `work` raises an error, return an answer with the error."""
    try:
        return work()
    except Exception as error:  # a request that fails must not end the server
        if not isinstance(error, UserError | OSError):
            traceback.print_exc()
        return {"error": message_of(error)}


def _imported(request: Request) -> Answer:
    # Import this module only here, because few sweeps need its libraries.
    from tasks.export.published import import_folder

    return {"run": import_folder(Path(request["folder"]), Path(request["outputs"]))}


def _about(data: TaskData, config: Mapping[str, Any]) -> Answer:
    digest, describe = data.source()
    named = {**config, "data": {**config["data"], "digest": digest}}
    return {
        "digest": digest,
        "describe": describe,
        "prepared": data_of(parse(named)).folder_name(),
        "metrics": [*module_class(config["task"]["name"]).measured],
    }


if __name__ == "__main__":
    Server().serve()
