"""The first result stays, and a later one that differs is told."""

from __future__ import annotations

import pytest

from sweeper.store.runs import State

RESULT = {"metrics": {"test/loss": 3.25}, "steps": 1000, "weights_sha256": "0" * 64}
PUBLISH = """
import sys
from pathlib import Path
from sweeper.store.runs import Run
run = Run.open(Path(sys.argv[1]))
attempt = run.claim({})
loss = 3.25 + (int(sys.argv[3]) if sys.argv[2] == "different" else 0)
GO
won = run.publish_result(attempt, {"metrics": {"test/loss": loss}, "steps": 7})
print(attempt.number, won)
"""


def test_a_result_makes_the_run_done_and_names_its_attempt(run):
    run.claim({}).finish("crash")
    attempt = run.claim({})
    assert run.publish_result(attempt, RESULT)
    assert run.result() == {"format": 1, "id": run.id, "attempt": 2, **RESULT}
    status = run.status()
    assert (status.state, status.attempt, status.heartbeat) == (State.DONE, 2, None)
    assert status.reason == "finished at step 1000 (attempt 2)"


@pytest.mark.parametrize("kind", ["identical", "different"])
def test_of_8_finishers_at_once_one_publishes(run, race, kind):
    answers = dict(text.split() for text in race(PUBLISH, 8, run.path, kind))
    (winner,) = [int(number) for number, won in answers.items() if won == "True"]
    assert len(answers) == 8
    result = run.result()
    assert result is not None
    assert result["attempt"] == winner
    differing = sorted(path.name for path in run.path.glob("differs-*.json"))
    losers = [number for number in range(1, 9) if number != winner]
    expected = [f"differs-{number:04d}.json" for number in losers] if kind == "different" else []
    assert differing == expected
    status = run.status()
    assert status.state is State.DONE
    assert all(name in status.reason for name in differing)


def test_a_result_without_metrics_or_with_nan_is_never_published(run):
    attempt = run.claim({})
    with pytest.raises(KeyError):
        run.publish_result(attempt, {"steps": 7})
    with pytest.raises(ValueError, match="JSON"):
        run.publish_result(attempt, {"metrics": {"test/loss": float("nan")}})
    assert run.result() is None
