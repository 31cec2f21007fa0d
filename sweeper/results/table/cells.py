"""What the record and the result of one run put into a row of a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sweeper.store.archives.reading import present
from sweeper.store.errors import UserError, shown
from sweeper.store.identity import leaves
from sweeper.store.runs import Run, State

_RESULT = ("steps", "tokens_seen", "seconds", "tokens_per_second", "device")


def planned_cells(config: Mapping[str, Any]) -> dict[str, Any]:
    """What the config of a run says of it."""
    task = {"task": config["task"]["name"]} if "task" in config else {}
    return task | {f"model.{key}": value for key, value in leaves(config["model"])}


def run_cells(run: Run, config: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """How a run stands and what it measured; of one without a record what `config` plans."""
    status = run.status()
    cells: dict[str, Any] = {"run": run.id, "state": str(status.state), "reason": status.reason}
    if status.state is State.NEW and not present(run.path / "run.json"):
        return cells | (planned_cells(config) if config else {})
    try:
        record, result = run.record(), run.result()
        cells |= planned_cells(record["config"])
        if result is not None:
            cells |= {field: result.get(field) for field in _RESULT}
            cells["code"] = run.attempt(result["attempt"]).info().get("code")
            cells |= {**result.get("validation", {}), **result["metrics"]}
    except UserError as problem:
        cells |= {"state": str(State.FAILED), "reason": str(problem)}
    except (KeyError, TypeError, AttributeError) as problem:
        reason = f"a file of the run lacks {shown(problem, 80)}"
        cells |= {"state": str(State.FAILED), "reason": reason}
    return cells
