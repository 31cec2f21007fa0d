"""The console that a command prints to."""

import sys
from typing import NoReturn

from rich.console import Console, RenderableType
from rich.text import Text

from sweeper.store.errors import UserError, drop_output

# The assumed width of a pipe or a file, in characters. It is so large that no line is wrapped.
PIPE_WIDTH = 10_000


class Terminal(Console):
    """The console of a command. If the reader closes the output, printing raises UserError."""

    def __init__(self) -> None:
        super().__init__(
            highlight=False, width=None if sys.stdout.isatty() else PIPE_WIDTH
        )

    def print_line(self, words: object) -> None:
        """Print text on one line, without wrapping and without interpreting markup."""
        print_lines(self, str(words))

    def on_broken_pipe(self) -> NoReturn:
        """Raise UserError to end the command. rich calls this method after a broken pipe."""
        drop_output()
        raise UserError(
            "The output was closed before the command ended. Files that were already written stay. "
            "Repeat the command to finish."
        )


def print_lines(console: Console, *lines: RenderableType, style: str = "") -> None:
    """Print lines without interpreting markup. Long lines are not broken."""
    for line in lines:
        text = Text(line, style) if isinstance(line, str) else line
        console.print(text, soft_wrap=True)
