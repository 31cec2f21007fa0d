"""Options in tests: a sweep's, with no waits and three tries, and backends', as conf/ has them."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from omegaconf import OmegaConf

from sweeper.hydra_section import composer
from sweeper.run.options import SweepOptions


@cache
def _as_configured() -> Any:
    return OmegaConf.to_object(composer().compose([]).hydra.sweeper)


def policy(**changes: Any) -> SweepOptions:
    """Options of a sweep that differ from the usual ones of tests."""
    usual = {"tries": 3, "wait_s": 0.0, "equal_failures": 3}
    options: SweepOptions = replace(_as_configured(), **{**usual, **changes})
    return options


def launcher(name: str, **changes: Any) -> Any:
    """The options that `hydra/launcher=name` gives, with changes."""
    typed = [f"hydra/launcher={name}", *(f"hydra.launcher.{k}={v}" for k, v in changes.items())]
    return OmegaConf.to_object(composer().compose(typed).hydra.launcher)
