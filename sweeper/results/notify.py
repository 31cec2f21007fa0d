"""Tells a person, who is elsewhere, what became of a sweep: by a command of theirs.

The command is a list of words and never goes through a shell: what is told may hold a title that
anybody wrote. It is told by its last argument and by its environment:

    HEADROOM_EVENT     sweep: it is over; breaker: nothing more is started; claim: it has an answer
    HEADROOM_MESSAGE   one line
    HEADROOM_OUTPUTS   the outputs folder
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from sweeper.store.errors import sanitize

PATIENCE_S = 30.0
LETTERS = 500


def notify(command: Sequence[str], event: str, message: str, outputs: Path) -> str:
    """Run the command; a sentence on what went wrong, empty if nothing did. It raises nothing."""
    if not command:
        return ""
    line = sanitize(message, LETTERS)
    told = {"EVENT": event, "MESSAGE": line, "OUTPUTS": str(outputs.absolute())}
    environment = {**os.environ, **{f"HEADROOM_{key}": value for key, value in told.items()}}
    try:
        subprocess.run(
            [*command, line],
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE_S,
            check=True,
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return f"hydra.sweeper.notify could not tell of it: {sanitize(error, 200)}"
    return ""
