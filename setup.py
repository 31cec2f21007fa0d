"""Put the folders that Headroom needs into one package of the wheel, `headroom_attention`.

Directly in site-packages, `models`, `tasks` and `conf` would clash with other packages.
pyproject.toml has no option for this.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOMS = ("conf", "hydra_plugins", "models", "sweeper", "tasks")


class House(build_py):
    """The build step that copies the folders and sweep.py into `headroom_attention`."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        house = Path(self.build_lib, "headroom_attention")
        shutil.copy("sweep.py", house)
        for room in ROOMS:
            # An earlier build may have left a copy with files that no longer exist.
            shutil.rmtree(house / room, ignore_errors=True)
            shutil.copytree(
                room, house / room, ignore=shutil.ignore_patterns("__pycache__")
            )


setup(cmdclass={"build_py": House})
