"""Options in tests: a sweep's, with no waits and three tries, and backends', as conf/ has them."""

from __future__ import annotations

from typing import Any

from omegaconf import OmegaConf

from sweeper.hydra_section import composer
from sweeper.run.options import OnOom, Policy


def policy(**changes: Any) -> Policy:
    """A policy that differs from the usual one of tests."""
    usual = {"tries": 3, "wait_s": 0.0, "equal_failures": 3, "fail_fast": False}
    return Policy(**{"on_oom": OnOom.fail, **usual, **changes})


def launcher(name: str, **changes: Any) -> Any:
    """The options that `hydra/launcher=name` gives, with changes."""
    typed = [f"hydra/launcher={name}", *(f"hydra.launcher.{k}={v}" for k, v in changes.items())]
    return OmegaConf.to_object(composer().compose(typed).hydra.launcher)
