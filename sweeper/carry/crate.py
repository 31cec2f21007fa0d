"""What each file of a bundle is, in the words of RO-Crate 1.1 (https://w3id.org/ro/crate/1.1)."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from sweeper.results.table import Table, stem
from sweeper.store.files import as_json

METADATA = "ro-crate-metadata.json"
SPECIFICATION = "https://w3id.org/ro/crate/1.1"
LICENCE = "https://spdx.org/licenses/MIT"
PROGRAM = "#headroom"

_KINDS = {
    "csv": "text/csv",
    "diff": "text/x-diff",
    "json": "application/json",
    "jsonl": "application/jsonl",
    "md": "text/markdown",
    "pdf": "application/pdf",
    "png": "image/png",
    "svg": "image/svg+xml",
    "tex": "application/x-tex",
    "txt": "text/plain",
}
_ROLES = {
    "code": "a state of the code that trained: its commit, and what was changed since",
    "plans": "what was asked for: points, runs, and how claims are judged",
    "runs": "the record of a training run",
    "tables": "made from the records: a table, or the verdicts on claims (.claims.json)",
    "figures": "drawn from a table",
    "requirements": "versions and digests of the libraries that the program is tested with",
}


def described(name: str, tables: Sequence[Table], files: Sequence[str], date: str) -> str:
    """The text of the description of a bundle.

    Args:
        files: their names below the root; the manifest and the description itself come on top.
        date: when the newest run was begun, ISO 8601.
    """
    parts = [_part(file) for file in (*files, "manifest.json")]
    made = [_made(table, files) for table in tables]
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": name,
        "description": f"Records, tables, figures and claims: {'; '.join(t.title for t in tables)}",
        "datePublished": date or "1970-01-01",
        "license": {"@id": LICENCE},
        "hasPart": [{"@id": part["@id"]} for part in parts],
        "mentions": [{"@id": one["@id"]} for one in made],
    }
    itself = {
        "@id": METADATA,
        "@type": "CreativeWork",
        "about": {"@id": "./"},
        "conformsTo": {"@id": SPECIFICATION},
    }
    graph = [itself, root, *_program(tables), *made, *parts]
    return as_json({"@context": f"{SPECIFICATION}/context", "@graph": graph})


def _program(tables: Sequence[Table]) -> Iterator[dict[str, Any]]:
    """What trained the runs, in each of its versions, and the licence of all of it."""
    for code in _versions(tables):
        yield {
            "@id": f"{PROGRAM}-{code}",
            "@type": "SoftwareApplication",
            "name": "Headroom",
            "version": code,
            "license": {"@id": LICENCE},
        }
    about = {"name": "MIT License", "description": "As the program; text trained on has its own."}
    yield {"@id": LICENCE, "@type": "CreativeWork", **about}


def _made(table: Table, files: Sequence[str]) -> dict[str, Any]:
    """How the table and the figure of an experiment came about."""
    own = (f"tables/{stem(table.name)}.", f"figures/{stem(table.name)}.")
    used = sorted({str(row["run"]) for row in table.rows})
    return {
        "@id": f"#{stem(table.name)}",
        "@type": "CreateAction",
        "name": table.title,
        "description": shlex.join(map(str, table.provenance.get("command") or ())),
        "instrument": [{"@id": f"{PROGRAM}-{code}"} for code in _versions([table])],
        "object": [{"@id": f"runs/{run}/run.json"} for run in used],
        "result": [{"@id": file} for file in files if file.startswith(own)],
    }


def versions(tables: Sequence[Table]) -> list[str]:
    """The states of the code that trained them; a run that never began has none."""
    return sorted({str(row["code"]) for table in tables for row in table.rows if row.get("code")})


def _versions(tables: Sequence[Table]) -> list[str]:
    return [code.replace(" ", "-") for code in versions(tables)]


def _part(file: str) -> dict[str, Any]:
    folder = file.partition("/")[0]
    kind = _KINDS.get(file.rpartition(".")[2], "application/octet-stream")
    about = {"description": _ROLES[folder]} if folder in _ROLES else {}
    return {"@id": file, "@type": "File", "name": file, "encodingFormat": kind, **about}
