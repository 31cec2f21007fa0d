"""What pyproject.toml cannot say: the wheel holds the checkout's folders inside one package.

Side by side in site-packages, `models`, `tasks` and `conf` would be in everybody's way.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

ROOMS = ("conf", "hydra_plugins", "models", "sweeper", "tasks")


class House(build_py):
    """Puts the folders and sweep.py where `headroom_attention` looks for them."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        house = Path(self.build_lib, "headroom_attention")
        shutil.copy("sweep.py", house)
        for room in ROOMS:
            shutil.rmtree(house / room, ignore_errors=True)  # of an earlier build
            shutil.copytree(room, house / room, ignore=shutil.ignore_patterns("__pycache__"))


setup(cmdclass={"build_py": House})
