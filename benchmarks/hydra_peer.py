"""The jobs of benchmarks.makespan behind a plain Hydra app, for Hydra's own launchers."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import hydra
from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
os.environ["OMP_NUM_THREADS"] = "1"
ConfigStore.instance().store("config", {"run": "???", "outputs": "???"})


@hydra.main(version_base="1.3", config_path=None, config_name="config")
def main(config: DictConfig) -> None:
    sys.path.insert(0, str(ROOT))  # in a launcher's own process
    from benchmarks.one_run import execute

    execute(Path(config.outputs) / "runs" / config.run)


if __name__ == "__main__":
    main()
