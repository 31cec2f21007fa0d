"""What the record and the result of one run put into a row of a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sweeper.store.archives.reading import present
from sweeper.store.code.state import state_of
from sweeper.store.errors import UserError, shown
from sweeper.store.history import lineage
from sweeper.store.identity import leaves
from sweeper.store.runs import Run, State

THEN = " then "  # between what one run was trained with, one after the other
_MEASURED_HERE = ("energy_joules",)  # a column where the machine tells it, and else none
_RESULT = ("steps", "tokens_seen", "seconds", "tokens_per_second", "device")


def _made_with(attempts: Sequence[Mapping[str, Any]], device: str) -> dict[str, Any]:
    """What trained a run, the last time on `device`: all of it, where it was continued with or on
    something else."""
    before = [one.get("hardware", {}) for one in attempts[:-1]]
    devices = [found for one in before if (found := one.get("gpu") or one.get("cpu"))]
    told = {
        "device": [*(one for one in devices if not device.endswith(one)), device],
        "code": [one.get("code") for one in attempts],
        "torch": [one.get("versions", {}).get("torch") for one in attempts],
    }
    return {
        **{column: THEN.join(dict.fromkeys(filter(None, words))) for column, words in told.items()},
        "code_parts": [state for one in attempts if (state := state_of(one))],
    }


def planned_cells(config: Mapping[str, Any]) -> dict[str, Any]:
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
            cells |= {field: result[field] for field in _MEASURED_HERE if field in result}
            cells |= _made_with(lineage(run, result["attempt"]), str(cells["device"] or ""))
            cells |= {**result.get("validation", {}), **result["metrics"]}
    except UserError as problem:
        cells |= _unreadable(str(problem))
    except (KeyError, TypeError, AttributeError) as problem:
        cells |= _unreadable(f"a file of the run lacks {shown(problem, 80)}")
    return cells


def _unreadable(reason: str) -> dict[str, Any]:
    return {"state": str(State.FAILED), "reason": reason, "damaged": True}
