"""A stand-in for the server of Weights & Biases on loopback: as much of it as the real client asks.

What it does not know is an error that names the operation, so that a new version of the client
cannot be answered wrongly.
"""

import json
import os
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.wandb_answers import WandbServer

KEY = "0" * 40


class Loopback(ThreadingHTTPServer):
    """Answers many at once, and says nothing of clients that were killed."""

    daemon_threads = True

    def handle_error(self, request, client_address):
        pass


class Handler(BaseHTTPRequestHandler):
    """A connection to the server, which `wandb_server` puts in the place of `memory`."""

    protocol_version = "HTTP/1.1"
    memory: WandbServer

    def log_message(self, *_):
        pass

    def do_GET(self):
        self._reply({})

    def do_PUT(self):
        with self.memory.lock:
            self.memory.files[self.path.removeprefix("/storage/")] = self._body()
        self._reply({})

    def do_POST(self):
        body = self._body()
        if self.memory.silent:
            self.connection.close()
            return
        with self.memory.lock:
            if "file_stream" in self.path:
                self.memory.stream(self.memory.runs[self.path.split("/")[-2]], json.loads(body))
                self._reply({})
            elif self.path == "/graphql":
                self._answer(json.loads(body))
            else:
                self._reply({})  # what the client tells of itself

    def _answer(self, asked):
        data = self.memory.answer(asked["query"], asked.get("variables") or {})
        if data is None:
            self._reply({"errors": [{"message": self.memory.unknown[-1]}]}, 400)
        else:
            self._reply({"data": data})

    def _body(self):
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _reply(self, value, status=200):
        text = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


@contextmanager
def wandb_server():
    """A server, and this process and those it starts turned to it with a key."""
    server = WandbServer()
    handler = type("Handler", (Handler,), {"memory": server})
    listening = Loopback(("127.0.0.1", 0), handler)
    server.address = f"http://127.0.0.1:{listening.server_port}"
    thread = threading.Thread(target=listening.serve_forever, daemon=True)
    thread.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WANDB_BASE_URL", server.address)
        patch.setenv("WANDB_API_KEY", KEY)
        patch.delenv("WANDB_MODE", raising=False)
        for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
            patch.delenv(name)
        yield server
    listening.shutdown()
    listening.server_close()
    thread.join()
    assert not server.unknown, f"the client asks what this server does not know: {server.unknown}"
