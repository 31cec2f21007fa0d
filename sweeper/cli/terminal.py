"""The terminal that commands print to."""

from __future__ import annotations

import os
from typing import NoReturn

from rich.console import Console

from sweeper.store.errors import UserError


class Terminal(Console):
    """The console of a command; it ends in a sentence once its output is closed."""

    def on_broken_pipe(self) -> NoReturn:
        """End the command; what stdout still holds is dropped, or Python would complain."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        raise UserError("The output was closed; files that were written stay.")
