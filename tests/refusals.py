"""How tests read what the code says when it refuses something."""

from collections.abc import Callable
from typing import Any

import pytest

from sweeper.store.errors import UserError


def refusal(call: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    """Call a function that must raise a UserError of one printable line. Return the line."""
    with pytest.raises(UserError) as caught:
        call(*arguments, **options)
    line = str(caught.value)
    assert line.isprintable()
    return line
