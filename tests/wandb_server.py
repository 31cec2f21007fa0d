"""A stand-in for the server of Weights & Biases on loopback: as much of it as the real client asks.

It answers GraphQL by the name of the operation and keeps what it was given: runs with their config,
summary and history, saved views, artifacts with their files. An operation it does not know is an
error, so that a new version of the client cannot be answered wrongly.
"""

import json
import os
import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

ENTITY = "someone"
OWNER = {"id": "e", "name": ENTITY}
KEY = "0" * 40
OPERATION = re.compile(r"\b(?:query|mutation)\s+(\w+)")
NAMES = {"id": "1", "entity": ENTITY, "username": ENTITY, "email": "", "flags": "{}"}
VIEWER = {"viewer": {**NAMES, "teams": {"edges": []}}}
FIXED = {
    "Viewer": VIEWER,
    "GetDefaultEntity": VIEWER,
    "ArtifactType": {"project": {"artifact": None}},
    "ServerFeaturesQuery": {"serverInfo": {"features": []}},
}


@dataclass
class Remote:
    """What the server knows of a run."""

    id: str
    project: str
    about: dict = field(default_factory=dict)
    config: dict = field(default_factory=dict)
    summary: dict = field(default_factory=dict)
    history: list = field(default_factory=list)
    state: str = "running"


class WandbServer(HTTPServer):
    """The server: its memory, and its answers. `address` is where it listens."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server_port}"
        self.runs = {}
        self.views = {}
        self.artifacts = {}
        self.files = {}
        self.unknown = []

    def handle_error(self, *_):
        """A client was killed."""

    def answer(self, query, variables):
        """The data of a GraphQL answer; None to an operation it does not know."""
        name = OPERATION.search(query)[1]
        if name in FIXED:
            return FIXED[name]
        operation = getattr(self, f"_{name}", None)
        if operation is None:
            self.unknown.append(name)
            return None
        return operation(variables)

    def stream(self, run, body):
        """What a client tells while a run goes on, and how it ended."""
        files = body.get("files") or {}
        if part := files.get("wandb-history.jsonl"):
            run.history[part["offset"] :] = map(json.loads, part["content"])
        if part := files.get("wandb-summary.json"):
            run.summary = json.loads(part["content"][-1])
        if body.get("complete"):
            run.state = "failed" if body["exitcode"] else "finished"

    def _UpsertBucket(self, given):
        # The public API names a run by its id alone.
        name = given.get("name") or given["id"]
        run = self.runs.setdefault(name, Remote(name, given.get("project", "")))
        run.about |= {key: value for key, value in given.items() if value is not None}
        run.config |= json.loads(given.get("config") or "{}")
        project = {"name": run.project, "entity": OWNER}
        bucket = {"id": run.id, "name": run.id, "config": "{}", "project": project}
        return {"upsertBucket": {"bucket": bucket}}

    def _Runs(self, given):
        asked = json.loads(given["filters"])["name"]["$in"]
        found = [self.runs[id] for id in asked if id in self.runs]
        edges = [{"node": self._described(run), "cursor": run.id} for run in found]
        runs = {"edges": edges, "pageInfo": {"hasNextPage": False}}
        return {"project": {"runCount": len(edges), "runs": runs}}

    def _described(self, run):
        """Return a run as the public API shows it."""
        return {
            "id": run.id,
            "name": run.id,
            "state": run.state,
            "tags": run.about["tags"],
            **dict.fromkeys(
                ("description", "displayName", "group", "jobType", "notes")
            ),
            "config": json.dumps(run.config),
            "summaryMetrics": json.dumps(run.summary),
        }

    def _RunResumeStatus(self, given):
        return {"model": {"name": given["project"], "entity": OWNER, "bucket": None}}

    def _CreateRunFiles(self, given):
        run = given["run"]
        files = [
            {"name": name, **self._upload(f"{run}/{name}")} for name in given["files"]
        ]
        return {"createRunFiles": {"runID": run, "uploadHeaders": [], "files": files}}

    def _UpsertView2(self, given):
        id = given.get("id") or f"view-{len(self.views)}"
        self.views[id] = dict(given)
        view = {"id": id, "name": given["name"]}
        return {"upsertView": {"view": view, "inserted": True}}

    def _View(self, given):
        edges = [
            {"node": {**view, "id": id}}
            for id, view in self.views.items()
            if view["name"] == given["viewName"]
        ]
        return {"project": {"allViews": {"edges": edges}}}

    def _CreateArtifact(self, given):
        [asked] = given.values()
        id = f"artifact-{len(self.artifacts)}"
        self.artifacts[id] = {**asked, "committed": False}
        made = {"id": id, "state": "PENDING", "artifactSequence": {}}
        return {"createArtifact": {"artifact": made}}

    def _upload(self, path):
        return {"uploadUrl": f"{self.address}/storage/{path}", "uploadHeaders": []}

    def _CreateArtifactManifest(self, given):
        manifest = {"id": "m", "file": {"id": "m", **self._upload("manifest")}}
        return {"createArtifactManifest": {"artifactManifest": manifest}}

    def _CreateArtifactFiles(self, given):
        edges = []
        for spec in given["input"]["artifactFiles"]:
            id = spec["artifactID"]
            path = f"{id}/{spec['name']}"
            node = {"storagePath": path, "artifact": {"id": id}, **self._upload(path)}
            edges.append({"node": node})
        return {"createArtifactFiles": {"files": {"edges": edges}}}

    def _CommitArtifact(self, given):
        id = given["artifactID"]
        self.artifacts[id]["committed"] = True
        return {"commitArtifact": {"artifact": {"id": id, "digest": ""}}}


class Handler(BaseHTTPRequestHandler):
    """A connection to the server."""

    def log_message(self, *_):
        pass

    def do_GET(self):
        self._reply({})

    def do_PUT(self):
        self.server.files[self.path.removeprefix("/storage/")] = self._body()
        self._reply({})

    def do_POST(self):
        body = self._body()
        if self.path == "/graphql":
            asked = json.loads(body)
            data = self.server.answer(asked["query"], asked.get("variables") or {})
            self._reply({"data": data}, 400 if data is None else 200)
            return
        if "file_stream" in self.path:
            run = self.server.runs[self.path.split("/")[-2]]
            self.server.stream(run, json.loads(body))
        self._reply({})

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
    with WandbServer() as server, pytest.MonkeyPatch.context() as patch:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        patch.setenv("WANDB_BASE_URL", server.address)
        patch.setenv("WANDB_API_KEY", KEY)
        patch.delenv("WANDB_MODE", raising=False)
        for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
            patch.delenv(name)
        yield server
        server.shutdown()
        thread.join()
    assert not server.unknown, (
        f"the client asks what this server does not know: {server.unknown}"
    )
