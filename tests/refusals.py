"""How tests read what the code says when it refuses something."""

import pytest

from sweeper.store.errors import UserError


def refusal(call, *arguments, **options):
    """Call a function that must raise a UserError of one printable line. Return the line."""
    with pytest.raises(UserError) as caught:
        call(*arguments, **options)
    line = str(caught.value)
    assert line.isprintable()
    return line
