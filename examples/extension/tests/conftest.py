"""Extend the import path, so that the tests can import models, tasks and sweeper."""

import headroom_attention  # noqa: F401  (adds them to the import path)
