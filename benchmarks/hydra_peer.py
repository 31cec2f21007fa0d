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
    """Train one run; what it prints goes to its own log from there on."""
    sys.path.insert(0, str(ROOT))  # in a launcher's own process
    from tasks import train

    kept = [os.dup(number) for number in (1, 2)]
    code = train.main(str(Path(config.outputs) / "runs" / config.run))
    for number, copy in zip((1, 2), kept, strict=True):
        os.dup2(copy, number)
    if code:
        raise RuntimeError(f"run {config.run} ended with code {code}")


if __name__ == "__main__":
    main()
