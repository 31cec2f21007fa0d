"""The terminal of a command."""

import sys
from typing import NoReturn

from rich.console import Console
from rich.text import Text

from sweeper.store.errors import UserError, drop_output

PIPE_WIDTH = 10_000  # letters: nothing in a pipe or a file is cut or broken


class Terminal(Console):
    """The console of a command; it ends in a sentence once its output is closed."""

    def __init__(self) -> None:
        super().__init__(
            highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH
        )

    def print_line(self, words: object) -> None:
        """Print words as they are, without markup, on a line that is not broken."""
        self.print(Text(str(words)), soft_wrap=True)

    def on_broken_pipe(self) -> NoReturn:
        """End the command."""
        drop_output()
        raise UserError("The output was closed; files that were written stay.")
