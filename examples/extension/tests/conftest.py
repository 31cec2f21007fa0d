"""Set up the import path for the tests, so that they can import models, tasks and sweeper."""

import headroom_attention  # noqa: F401  (adds them to the import path)
