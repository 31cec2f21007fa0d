"""The size server: `python -m tasks.size_server` builds models to count them, and forks jobs.

One JSON object a line on stdin and stdout; every request has an "id" and an "op":

    {"op": "size", "config"}   -> {"id", "size"} or {"id", "error"}
    {"op": "speed"}            -> {"id", "flops_per_second"}, measured for a second
    {"op": "data", "config"}   -> {"id", "digest", "describe", "prepared", "metrics"}
                                  or {"id", "error"}
    {"op": "import", "folder", "outputs"} -> {"id", "run"} or {"id", "error"}; imports a folder
                                  that transformers saved as a finished run
    {"op": "preload", "logger"}   -> {"id", "code"}; imports the modules of jobs, W&B unless
                                  "logger" is "none"; returns the state of the code
    {"op": "fork", "target": "train" | "prepare", "argument", "environment", "log"}
                               -> {"id", "pid"} at once, {"id", "exited": code} later
    {"op": "signal", "of": id, "signal": number} -> {"id", "signalled": true | false}

The first line it writes is {"ready": true}. After the end of stdin it starts nothing more, and ends
with its last job. It stays single-threaded and never touches a GPU, so that forking is safe.
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

if __name__ == "__main__":  # --help is answered before anything heavy is imported
    command_line("tasks.size_server", __doc__).parse_args()

# Before any numeric library is loaded: no threads in this process, one each in its jobs.
for _name in (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "RAYON_NUM_THREADS",
):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from sweeper.store.code import loaded_code  # noqa: E402

loaded_code()  # read when the server starts: jobs record the code that they run
try:
    with freeze_gc():
        from tasks.size_server.fork import become_job, forked, import_lightning, preload

        import_lightning()
        from sweeper.store.errors import UserError
        from tasks.data import TaskData
        from tasks.parse import data_of, module_class, parse
        from tasks.size_server.sizes import CountPolynomials, counts, size
        from tasks.training import machine
        from tasks.training.causes import message_of
except (
    OSError,
    MemoryError,
) as lacking:  # a limit of the system: no fault of the program
    sys.exit(
        f"error: PyTorch cannot be loaded ({lacking}); raise the limits (ulimit -a)."
    )
except ImportError as lacking:
    if str(lacking.name).startswith(("sweeper", "models", "tasks")):
        raise
    sys.exit(
        f"error: PyTorch cannot be loaded ({lacking}); raise the limits, or install it again."
    )

TARGETS = {"train": "tasks.train", "prepare": "tasks.prepare"}

Request = Mapping[str, Any]


class Server:
    """The loop of requests, answers and children."""

    def __init__(self) -> None:
        # Output of libraries goes to stderr; the real stdout carries the protocol alone. Text that
        # was printed before this point is flushed to stdout, where the reader skips it.
        sys.stdout.flush()
        self._answers = os.dup(1)
        os.dup2(2, 1)
        self._children: dict[int, Request] = {}  # requests, by pid
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
            importlib.import_module(
                "torch._dynamo"
            )  # needed by the first model; takes a second
        return CountPolynomials(counts)

    def serve(self) -> None:
        """Answer until stdin ends and the last child is gone."""
        self._answer({"ready": True})
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
                    answer = {"flops_per_second": machine.flops_per_second()}
                case "data":
                    config = request["config"]
                    # Parse here, so that jobs find the modules imported.
                    data = data_of(parse(config))
                    self._fork_answer(request, lambda: _about(data, config))
                    answer = None  # its child answers
                case "import":
                    self._fork_answer(request, lambda: _imported(request))
                    answer = None
                case "preload":
                    preload(request.get("logger", ""))
                    answer = {"code": machine.facts()["code"]}
                case "fork":
                    answer = self._fork_job(request)
                case "signal":
                    pids = [
                        p
                        for p, asked in self._children.items()
                        if asked["id"] == request["of"]
                    ]
                    for pid in pids:  # not reaped yet, so the numbers are still theirs
                        # SIGKILL is for the processes that the job started, too.
                        kill = (
                            os.killpg
                            if request["signal"] == signal.SIGKILL
                            else os.kill
                        )
                        kill(pid, request["signal"])
                    answer = {"signalled": bool(pids)}
                case op:
                    known = "size, speed, data, preload, fork or signal"
                    raise UserError(f"op={op}: expected {known}.")
        except Exception as error:  # a request that fails must not end the server
            if not isinstance(error, UserError):
                traceback.print_exc()
            answer = {"error": message_of(error)}
        if answer is not None:
            self._answer({"id": request["id"], **answer})

    def _answer(self, value: dict[str, Any]) -> None:
        with contextlib.suppress(
            BrokenPipeError
        ):  # nobody reads any more; running jobs go on
            os.write(self._answers, json.dumps(value).encode() + b"\n")

    def _fork_answer(
        self, request: Request, work: Callable[[], dict[str, Any]]
    ) -> None:
        """Answer from a child: reading a corpus or a model may start threads."""

        def ask() -> int:
            try:
                answer = work()
            except (UserError, OSError) as error:
                answer = {"error": str(error)}
            self._answer({"id": request["id"], **answer})
            return 0

        self._fork(request, ask, close=())

    def _fork_job(self, request: Request) -> dict[str, Any]:
        module = TARGETS.get(request["target"])
        if module is None:
            raise UserError(
                f"target={request['target']}: expected one of {', '.join(TARGETS)}."
            )

        def job() -> int:
            os.environ.update(request.get("environment") or {})
            return importlib.import_module(module).main(request["argument"])

        return {"pid": self._fork(request, job, close=(self._answers,))}

    def _fork(
        self, request: Request, work: Callable[[], int], close: tuple[int, ...]
    ) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = forked()
        if pid == 0:
            become_job(work, log=request.get("log"), close=(*self._private, *close))
        # From here too: the reader of the pid may signal the group at once.
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
                    text = f"the process of this request ended with code {code}"
                    self._answer(
                        {"id": request["id"], "error": f"{text}; its stderr says why."}
                    )


def _imported(request: Request) -> dict[str, Any]:
    # Few sweeps need the libraries of this module.
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
