"""Has W&B tell its user, by mail or Slack, what became of a sweep whose runs are mirrored there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sweeper.store.errors import sanitize

_SETTINGS: dict[str, Any] = {
    "console": "off",
    "silent": True,
    "disable_git": True,
    "save_code": False,
    "init_timeout": 20,
    "finish_timeout": 20,
    "x_disable_stats": True,
    "x_save_requirements": False,
}


def alert(logger: Mapping[str, Any], event: str, message: str, outputs: Path) -> str:
    """Send an alert where runs are mirrored online, from a W&B run that is the sweep's own.

    Returns:
        A sentence on what went wrong, empty if nothing did. It raises nothing.
    """
    if logger.get("name") != "wandb" or logger.get("mode") != "online":
        return ""
    try:
        import wandb

        run = wandb.init(
            project=logger["project"],
            entity=logger["entity"],
            name="sweep",
            job_type="sweep",
            dir=str(outputs),
            settings=wandb.Settings(**_SETTINGS),
        )
        run.alert(title=f"Headroom: {event}", text=sanitize(message, 500))
        run.finish()
    except Exception as error:  # the edge to a library that may raise anything
        return f"W&B could not tell of it: {sanitize(error, 200)}"
    return ""
