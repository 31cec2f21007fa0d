"""Packages that are installed for a test: what an installer leaves, on a path of their own."""

import importlib
import sys

from sweeper.store import registry


class Installed:
    """Installs packages for one test, each a module with a source and entry points."""

    def __init__(self, folder, monkeypatch):
        self.folder = folder
        self._names: list[str] = []
        monkeypatch.syspath_prepend(folder)

    def __call__(self, package, source, groups):
        """A package `package` 1.2.3 that registers a `name = module` in each group; its file."""
        about = self.folder / f"{package}-1.2.3.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2.3\n")
        points = "".join(f"[{group}]\n{line}\n" for group, line in groups.items())
        (about / "entry_points.txt").write_text(points)
        module = self.folder / package / "__init__.py"
        module.parent.mkdir()
        module.write_text(source)
        self._names.append(package)
        self.forget()
        return module

    def forget(self):
        """What a new process would not know."""
        for package in self._names:
            sys.modules.pop(package, None)
        importlib.invalidate_caches()
        registry._registered.cache_clear()
        registry._digest.cache_clear()
