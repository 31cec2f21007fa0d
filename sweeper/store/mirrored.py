"""What a mirror carries of a run or a plan, so that it can come back elsewhere as it was.

It carries the files' own texts, for values do not survive: a service that keeps 1.0 as 1 would
change the bytes of a table. Where it puts them is for the mirror to say; they lie under KEY.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sweeper.store.attempts import Cause
from sweeper.store.errors import UserError, shown
from sweeper.store.files import SEAL, fault_of, make_directory, publish, read_bytes
from sweeper.store.runs import Run, RunStore

KEY = "headroom"
RECORD, ATTEMPT, RESULT, PLAN = "record", "attempt", "result", "plan"


def carried(run: Run) -> dict[str, str]:
    """The texts of a run's record and, once it is done, of its result and the attempt that did it.

    Raises:
        UserError, OSError: a file cannot be read.
    """
    paths = {RECORD: run.path / "run.json"}
    result = run.result()
    if result is not None:
        paths[RESULT] = run.path / "result.json"
        paths[ATTEMPT] = run.attempt(result["attempt"]).path / "attempt.json"
    return {name: (read_bytes(path) or b"").decode() for name, path in paths.items()}


def restore(store: RunStore, id: str, texts: Mapping[str, Any]) -> bool:
    """Puts a run where it would be had it been trained here; whether its result is there now.

    A run that has an attempt here stays as it is: what is on disk comes before any mirror. Weights
    and training curves do not come back.

    Raises:
        UserError: the texts are not what `carried` gave; nothing was written.
    """
    run = store.run(id)
    record = _opened(id, texts, RECORD, ("id", "config"))
    if record["id"] != id:
        raise _unfit(id, f"its record is that of {shown(record['id'], 80)}")
    finished = texts.keys() >= {RESULT, ATTEMPT}
    result = _opened(id, texts, RESULT, ("id", "attempt", "metrics")) if finished else {}
    attempt = _opened(id, texts, ATTEMPT, ("number",), versioned=False) if finished else {}
    if finished and not _same_number(result["attempt"], attempt["number"]):
        raise _unfit(id, "its attempt is not the one of its result")
    store.freeze({key: value for key, value in record.items() if key not in ("format", SEAL)})
    if run.attempts() or not finished:
        return run.result() is not None
    made = run.attempt(result["attempt"])
    make_directory(made.checkpoint_dir)
    publish(made.path / "attempt.json", texts[ATTEMPT], replace=False)
    made.finish(Cause.DONE)
    publish(run.path / "result.json", texts[RESULT], replace=False)
    return True


def opened_plan(id: str, texts: Mapping[str, Any]) -> dict[str, Any]:
    """The plan that a mirror carries; UserError if it is none."""
    plan = _opened(id, texts, PLAN, ("experiments", "points", "runs"))
    points, runs = plan["points"], plan["runs"]
    whole = isinstance(plan["experiments"], dict) and isinstance(points, list)
    whole = whole and isinstance(runs, dict) and all(isinstance(run, dict) for run in runs.values())
    if not (whole and all(_is_point(point, runs) for point in points)):
        raise _unfit(id, "its plan does not hold what a plan holds")
    return {key: value for key, value in plan.items() if key not in ("format", "number")}


def _opened(
    id: str, texts: Mapping[str, Any], name: str, keys: tuple[str, ...], *, versioned: bool = True
) -> dict[str, Any]:
    try:
        value = json.loads(texts[name])
    except (KeyError, TypeError, ValueError, RecursionError):
        raise _unfit(id, f"its {name} is missing or no JSON") from None
    if not (isinstance(value, dict) and value.keys() >= set(keys)):
        raise _unfit(id, f"its {name} is not an object with {', '.join(keys)}")
    if versioned and (fault := fault_of(value)):
        raise _unfit(id, f"its {name} cannot be used, {fault}")
    return value


def _is_point(value: Any, runs: Mapping[str, Any]) -> bool:
    keys = {"experiment", "arm", "seed", "values", "run"}
    if not (isinstance(value, dict) and value.keys() >= keys):
        return False
    return isinstance(value["run"], str) and value["run"] in runs


def _same_number(one: Any, other: Any) -> bool:
    """Whether both are the same number that an attempt can have."""
    return isinstance(one, int) and 0 < one < 10**9 and one == other


def _unfit(id: str, reason: str) -> UserError:
    remedy = "mirror it again or train it here"
    return UserError(f"{shown(id, 80)} cannot be taken from the mirror: {reason}; {remedy}.")
