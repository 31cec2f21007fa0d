"""What the runs of a page were made with, as far as their records say."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sweeper.results.table import Table, number

Runs = Mapping[str, Mapping[str, Any]]


def provenance(tables: Sequence[Table], runs: Runs) -> dict[str, Any]:
    """Commands, versions of the program and its libraries, devices with their hours."""
    finishers = {id: _finisher(run) for id, run in runs.items()}
    libraries = [
        f"{name} {version}"
        for attempt in finishers.values()
        for name, version in attempt.get("versions", {}).items()
    ]
    return {
        "commands": _commands(tables),
        "code": _tally(attempt["code"] for attempt in finishers.values() if attempt.get("code")),
        "libraries": _tally(libraries),
        "devices": _devices(runs, finishers),
    }


def _commands(tables: Sequence[Table]) -> list[dict[str, Any]]:
    """Each command once, with the experiments that it planned."""
    found: dict[tuple[Any, ...], list[str]] = {}
    for table in tables:
        about = table.provenance
        words = shlex.join(map(str, about.get("command") or ()))
        command = words if words.startswith("python ") else f"python {words}"
        found.setdefault((about.get("number"), about.get("scale"), command), []).append(table.name)
    return [
        {"experiments": names, "plan": plan, "scale": scale, "command": command}
        for (plan, scale, command), names in found.items()
    ]


def _finisher(run: Mapping[str, Any]) -> Mapping[str, Any]:
    """The attempt that finished the run; of an unfinished one nothing."""
    found = [one for one in run["attempts"] if one["number"] == run.get("finished")]
    return found[0] if found else {}


def _devices(runs: Runs, finishers: Runs) -> list[dict[str, Any]]:
    """By device, how many runs finished on it and the hours they took it for.

    A run that used several takes each of them. What is no processor of its machine is a GPU.
    """
    found: dict[str, dict[str, Any]] = {}
    for id, run in runs.items():
        name = run["result"].get("device")
        if name is None:
            continue
        cpu = finishers[id].get("hardware", {}).get("cpu")
        kind = "" if cpu is None else "CPU" if cpu == name else "GPU"
        entry = found.setdefault(str(name), {"device": name, "kind": kind, "runs": 0, "hours": 0.0})
        entry["runs"] += 1
        entry["hours"] += (number(run["result"].get("seconds")) or 0.0) / 3600 * _count(run)
    return list(found.values())


def _count(run: Mapping[str, Any]) -> float:
    keys = ("trainer.devices", "trainer.num_nodes")
    devices, nodes = (number(run["settings"].get(key)) or 1.0 for key in keys)
    return devices * nodes


def _tally(words: Iterable[Any]) -> list[list[Any]]:
    """Each word and how many runs have it, the most frequent first."""
    return [list(one) for one in Counter(map(str, words)).most_common()]
