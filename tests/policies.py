"""Options in tests: a sweep's, with no waits and three tries, and backends', as conf/ has them."""

from dataclasses import replace
from functools import cache
from typing import Any

from omegaconf import OmegaConf

from sweeper.hydra_section import composer
from sweeper.run.options import SweepOptions

shipped = cache(composer)
"""The composer of conf/, which remembers what it composed for earlier tests."""


@cache
def _configured(*typed: str) -> Any:
    return shipped().compose(typed).hydra


def policy(**changes: Any) -> SweepOptions:
    """Options of a sweep that differ from the usual ones of tests."""
    usual = {"tries": 3, "wait_s": 0.0, "equal_failures": 3}
    configured: Any = OmegaConf.to_object(_configured().sweeper)
    options: SweepOptions = replace(configured, **{**usual, **changes})
    return options


def launcher(name: str, **changes: Any) -> Any:
    """The options that `hydra/launcher=name` gives, with changes."""
    typed = [
        f"hydra/launcher={name}",
        *(f"hydra.launcher.{k}={v}" for k, v in changes.items()),
    ]
    return OmegaConf.to_object(_configured(*typed).launcher)
