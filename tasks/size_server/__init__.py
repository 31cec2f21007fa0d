"""The warm process: answers questions about configs, and forks jobs."""

from tasks.size_server.fork import import_lightning

import_lightning()  # before any module here imports it with every package that is installed
