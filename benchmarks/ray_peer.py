"""The jobs of benchmarks.makespan as trials of Ray Tune: `ray_peer.py OUTPUTS SLOTS RUN ...`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ["OMP_NUM_THREADS"] = "1"

from sweeper.run.backends.ray import connected  # noqa: E402

if __name__ == "__main__":
    connected(None)  # sets what Ray reads when it is imported

from ray import tune  # noqa: E402


class Trial(tune.Trainable):  # type: ignore[misc, unused-ignore]  # Any without Ray
    """One run. A class and not a function, which Tune would call in a thread: runs take signals."""

    def setup(self, config: dict[str, Any]) -> None:
        sys.path.insert(0, str(ROOT))  # in a process of Ray's
        self._run = Path(config["run"])

    def reset_config(self, config: dict[str, Any]) -> bool:
        self._run = Path(config["run"])
        return True

    def step(self) -> dict[str, Any]:
        from benchmarks.one_run import execute

        execute(self._run)
        return {"done": True}


def main(outputs: str, slots: str, *runs: str) -> None:
    """Execute the runs, so many at a time, in processes that serve one trial after the other."""
    tuner = tune.Tuner(
        tune.with_resources(Trial, {"cpu": 1}),
        param_space={"run": tune.grid_search([f"{outputs}/runs/{run}" for run in runs])},
        tune_config=tune.TuneConfig(max_concurrent_trials=int(slots), reuse_actors=True),
        run_config=tune.RunConfig(
            storage_path=f"{outputs}/ray",
            verbose=0,
            checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),  # runs keep their own
        ),
    )
    if tuner.fit().errors:
        sys.exit("a trial failed; Ray has said which")


if __name__ == "__main__":
    main(*sys.argv[1:])
