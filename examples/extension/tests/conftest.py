"""Tests import this package as Headroom does: with models, tasks and sweeper beside it."""

import headroom_attention  # noqa: F401  (puts them on the import path)
