"""The size server: `python -m tasks.size_server` builds models to measure them, and forks jobs.

It imports PyTorch once. A forked job starts with PyTorch already imported. Each request is one line
of JSON on stdin, and each answer is one line of JSON on stdout:

    {"id", "op": "size", "config"}     -> {"id", "size"}
    {"id", "op": "speed"}              -> {"id", "flops_per_second"}
    {"id", "op": "data", "config"}     -> {"id", "digest", "describe", "prepared", "metrics"}
    {"id", "op": "import", "folder", "outputs"} -> {"id", "run"}
    {"id", "op": "preload", "logger"}  -> {"id"}
    {"id", "op": "fork", "target": "train" | "prepare", "argument", "environment", "log"}
                                       -> {"id", "pid"}; when the job ends, {"id", "exited": code}
    {"id", "op": "signal", "of", "signal": number} -> {"id"}

If a request fails, the answer is {"id", "error"} instead. "import" imports a model that
`transformers` saved in "folder", as a finished run. "preload" imports the modules that jobs need,
and W&B unless "logger" is "none". "signal" sends a signal to the job that the request with the id
"of" started.

After stdin ends, the server exits as soon as its last job has ended. It has one thread and never
uses a GPU, so that forking is safe.
"""

import contextlib
import importlib
import json
import os
import selectors
import signal
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from tasks.process import command_line, freeze_gc

# Answer --help before the slow imports.
if __name__ == "__main__":
    command_line("tasks.size_server", __doc__).parse_args()

# Numeric libraries read these variables when they are imported. They must not start threads here,
# because a fork does not copy threads.
for _name in (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "RAYON_NUM_THREADS",
):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from sweeper.store.code import loaded_code  # noqa: E402

# Read the source code now, before somebody edits it. Forked jobs record this copy.
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
except (OSError, MemoryError) as lacking:
    # The system's limits are too low. This is no bug, so print no traceback.
    sys.exit(
        f"error: PyTorch cannot be loaded ({lacking}); raise the limits that `ulimit -a` shows."
    )
except ImportError as lacking:
    if str(lacking.name).startswith(("sweeper", "models", "tasks")):
        raise
    sys.exit(
        f"error: PyTorch cannot be loaded ({lacking}); install PyTorch again, or raise the limits "
        "that `ulimit -a` shows."
    )

Request = Mapping[str, Any]


class Server:
    """A loop that answers requests and waits for the processes that it has forked."""

    def __init__(self) -> None:
        # Only answers may go to stdout, so send the output of libraries to stderr. First flush
        # their earlier output, which the client ignores.
        sys.stdout.flush()
        self._answers = os.dup(1)
        os.dup2(2, 1)
        # Map the pid of each child to the request for which it was forked.
        self._children: dict[int, Request] = {}
        self._selector = selectors.DefaultSelector()
        self._wake, wake = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._private = (self._wake, wake)
        self._selector.register(0, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)

    @cached_property
    def _polynomials(self) -> CountPolynomials:
        with freeze_gc():
            # The first model imports this package. Import it here without garbage collection, which
            # is faster.
            importlib.import_module("torch._dynamo")
        return CountPolynomials(counts)

    def serve(self) -> None:
        """Answer requests until stdin has ended and all children have exited."""
        rest, listening = b"", True
        while listening or self._children:
            for key, _ in self._selector.select():
                data = os.read(key.fd, 1 << 16)
                if key.fd == self._wake:
                    self._reap()
                elif data:
                    *lines, rest = (rest + data).split(b"\n")
                    for line in filter(None, lines):
                        self._handle(json.loads(line))
                else:
                    self._selector.unregister(key.fd)
                    listening = False

    def _handle(self, request: Request) -> None:
        answer: dict[str, Any] | None
        try:
            match request["op"]:
                case "size":
                    answer = {"size": size(request["config"], self._polynomials.counts)}
                case "speed":
                    answer = {"flops_per_second": flops_per_second()}
                case "data":
                    config = request["config"]
                    # This imports the task's modules in the server, so that forked jobs need not.
                    data = data_of(parse(config))
                    self._fork_answer(request, lambda: _about(data, config))
                    answer = None  # the child answers
                case "import":
                    self._fork_answer(request, lambda: _imported(request))
                    answer = None
                case "preload":
                    preload(request.get("logger", ""))
                    answer = {}
                case "fork":
                    answer = self._fork_job(request)
                case "signal":
                    pids = [
                        p
                        for p, asked in self._children.items()
                        if asked["id"] == request["of"]
                    ]
                    # A pid cannot be reused before _reap has waited for its process.
                    for pid in pids:
                        # SIGKILL must also reach the processes that the job has started.
                        kill = (
                            os.killpg
                            if request["signal"] == signal.SIGKILL
                            else os.kill
                        )
                        kill(pid, request["signal"])
                    answer = {}
                case op:
                    known = "size, speed, data, import, preload, fork or signal"
                    raise UserError(f"op={op}: expected {known}.")
        except Exception as error:  # a request that fails must not end the server
            if not isinstance(error, UserError):
                traceback.print_exc()
            answer = {"error": message_of(error)}
        if answer is not None:
            self._answer({"id": request["id"], **answer})

    def _answer(self, value: dict[str, Any]) -> None:
        # The client may have ended. The jobs continue without it.
        with contextlib.suppress(BrokenPipeError):
            os.write(self._answers, json.dumps(value).encode() + b"\n")

    def _fork_answer(
        self, request: Request, work: Callable[[], dict[str, Any]]
    ) -> None:
        """Answer in a child process, because reading a corpus or a model may start threads."""

        def ask() -> int:
            try:
                answer = work()
            except (UserError, OSError) as error:
                answer = {"error": str(error)}
            self._answer({"id": request["id"], **answer})
            return 0

        self._fork(request, ask, close=())

    def _fork_job(self, request: Request) -> dict[str, Any]:
        def job() -> int:
            os.environ.update(request.get("environment") or {})
            module = importlib.import_module(f"tasks.{request['target']}")
            return module.main(request["argument"])

        return {"pid": self._fork(request, job, close=(self._answers,))}

    def _fork(
        self, request: Request, work: Callable[[], int], close: tuple[int, ...]
    ) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = forked()
        if pid == 0:
            become_job(work, log=request.get("log"), close=(*self._private, *close))
        # The child also makes itself the leader of a process group. Do it here too, because the
        # client may signal the group before the child has run.
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
                    self._answer({"id": request["id"], "exited": code})
                elif code:
                    text = f"the process that should answer exited with code {code}"
                    self._answer(
                        {"id": request["id"], "error": f"{text}; see its stderr."}
                    )


def _imported(request: Request) -> dict[str, Any]:
    # Imported here, because few sweeps need the libraries of this module.
    from tasks.export.published import import_folder

    return {"run": import_folder(Path(request["folder"]), Path(request["outputs"]))}


def _about(data: TaskData, config: Mapping[str, Any]) -> dict[str, Any]:
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
