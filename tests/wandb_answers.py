"""What a stand-in for the server of Weights & Biases knows, and its answers to GraphQL.

It answers by the name of the operation and keeps what it was given: runs with their config, summary
and history, saved views, artifacts with their files.
"""

import json
import re
import threading
from dataclasses import dataclass, field
from typing import Any

ENTITY = "someone"
_OPERATION = re.compile(r"\b(?:query|mutation)\s+(\w+)")


@dataclass
class Remote:
    """What the server knows of a run."""

    id: str
    project: str
    about: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    state: str = "running"


class WandbServer:
    """The server's memory, and its answers. `address` is where it listens."""

    def __init__(self):
        self.address = ""
        self.runs: dict[str, Remote] = {}
        self.views: dict[str, dict[str, Any]] = {}
        self.artifacts: dict[str, dict[str, Any]] = {}
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.unknown: list[str] = []
        self.silent = False
        self.lock = threading.Lock()

    def answer(self, query, variables):
        """The data of a GraphQL answer; None to an operation it does not know."""
        found = _OPERATION.search(query)
        name = found[1] if found else query
        self.asked.append(name)
        operation = getattr(self, f"_{name}", None)
        if operation is None:
            self.unknown.append(name)
            return None
        data = operation(variables)
        return data

    def stream(self, run, body):
        """What a client tells while a run goes on, and how it ended."""
        for name, part in (body.get("files") or {}).items():
            lines = [json.loads(line) for line in part["content"] if name.endswith((".json", "l"))]
            if name == "wandb-history.jsonl":
                run.history[part["offset"] :] = lines
            elif name == "wandb-summary.json":
                run.summary = lines[-1]
        if body.get("complete"):
            run.state = "failed" if body.get("exitcode") else "finished"

    def _Viewer(self, _):
        names = {"id": "1", "entity": ENTITY, "username": ENTITY, "email": "", "flags": "{}"}
        return {"viewer": {**names, "admin": False, "teams": {"edges": []}, "apiKeys": None}}

    _GetDefaultEntity = _GetViewer = _Viewer

    def _ArtifactType(self, _):
        return {"project": {"artifact": None}}

    def _ServerFeaturesQuery(self, _):
        return {"serverInfo": {"features": []}}

    def _UpsertBucket(self, given):
        run = self.runs.setdefault(given["name"], Remote(given["name"], given["project"]))
        run.about |= {key: value for key, value in given.items() if value is not None}
        run.config |= json.loads(given.get("config") or "{}")
        project = {"id": "p", "name": run.project, "entity": {"id": "e", "name": ENTITY}}
        bucket = {"id": run.id, "name": run.id, "displayName": given.get("displayName")}
        rest = {"description": None, "config": "{}", "sweepName": None, "historyLineCount": 0}
        return {"upsertBucket": {"bucket": {**bucket, **rest, "project": project}}}

    def _RunResumeStatus(self, given):
        entity = {"id": "e", "name": ENTITY}
        return {"model": {"id": "p", "name": given["project"], "entity": entity, "bucket": None}}

    def _CreateRunFiles(self, given):
        urls = [
            {"name": name, "uploadUrl": f"{self.address}/storage/{given['run']}/{name}"}
            for name in given["files"]
        ]
        return {"createRunFiles": {"runID": given["run"], "uploadHeaders": [], "files": urls}}

    def _MarkRunFilesUploaded(self, _):
        return {"markRunFilesUploaded": {"success": True}}

    def _UpsertView2(self, given):
        id = given.get("id") or f"view-{len(self.views)}"
        self.views[id] = dict(given)
        return {"upsertView": {"view": {"id": id, "name": given["name"]}, "inserted": True}}

    def _View(self, given):
        edges = [
            {"node": {"id": id, "displayName": view["displayName"], "spec": view["spec"]}}
            for id, view in self.views.items()
            if view["name"] == given["viewName"]
        ]
        return {"project": {"allViews": {"edges": edges}}}

    def _FetchArtifactDigestAlgorithm(self, _):
        return {"project": {"artifactType": None}}

    def _XXHashDigestsEnabled(self, _):
        return {"entity": {"xxhashDigestsEnabled": False}}

    def _CreateArtifact(self, given):
        [asked] = given.values()
        id = f"artifact-{len(self.artifacts)}"
        self.artifacts[id] = {**asked, "files": {}, "committed": False}
        made = {"id": id, "state": "PENDING", "artifactSequence": {"latestArtifact": None}}
        return {"createArtifact": {"artifact": made}}

    def _CreateArtifactManifest(self, given):
        url = f"{self.address}/storage/{given['artifactID']}/manifest"
        file = {"id": "m", "uploadUrl": url, "uploadHeaders": []}
        return {"createArtifactManifest": {"artifactManifest": {"id": "m", "file": file}}}

    def _UpdateArtifactManifest(self, given):
        file = {"id": "m", "uploadUrl": f"{self.address}/storage/manifest", "uploadHeaders": []}
        return {"updateArtifactManifest": {"artifactManifest": {"id": "m", "file": file}}}

    def _CreateArtifactFiles(self, given):
        nodes = [self._artifact_file(spec) for spec in given["input"]["artifactFiles"]]
        edges = [{"node": node} for node in nodes]
        return {"createArtifactFiles": {"files": {"edges": edges}}}

    def _artifact_file(self, spec):
        path = f"{spec['artifactID']}/{spec['name']}"
        return {
            "storagePath": path,
            "uploadUrl": f"{self.address}/storage/{path}",
            "uploadHeaders": [],
            "uploadMultipartUrls": None,
            "artifact": {"id": spec["artifactID"]},
        }

    def _CommitArtifact(self, given):
        artifact = self.artifacts[given["artifactID"]]
        artifact["committed"] = True
        return {"commitArtifact": {"artifact": {"id": given["artifactID"], "digest": ""}}}
