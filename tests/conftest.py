"""What every test stands on: one thread, fixed seeds, no network, none of the user's settings."""

import importlib
import os
import random
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from sweeper.store import registry

ROOT = Path(__file__).resolve().parents[1]

# A busy machine is no failure: no example has a time that it must be done in. Nothing is kept of
# earlier commands, nor in a checkout that belongs to somebody else.
settings.register_profile(
    "untimed",
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("untimed")

# A key, a project, a log-in or a cluster allocation of whoever runs the tests must not reach them.
FOREIGN = ("WANDB_", "HYDRA_", "HF_", "SLURM_", "RAY_", "PL_", "TORCHELASTIC_")
for name in [name for name in os.environ if name.startswith(FOREIGN)]:
    del os.environ[name]
DISTRIBUTED = "WORLD_SIZE RANK LOCAL_RANK NODE_RANK MASTER_ADDR MASTER_PORT"
# These hide the order in which buffered output appears, and what writes to __pycache__.
BUFFERS = "PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE"
# With FORCE_COLOR, colour codes would come between the words a test looks for.
for name in f"{DISTRIBUTED} {BUFFERS} FORCE_COLOR".split():
    os.environ.pop(name, None)

# Read when the numeric libraries load, here and in the processes that tests start.
os.environ.update(
    OMP_NUM_THREADS="1",
    MKL_NUM_THREADS="1",
    OPENBLAS_NUM_THREADS="1",
    RAYON_NUM_THREADS="1",
    TOKENIZERS_PARALLELISM="false",
    HF_HUB_OFFLINE="1",
    HF_DATASETS_OFFLINE="1",
    WANDB_MODE="offline",
    WANDB_SILENT="true",
    MPLBACKEND="Agg",
)


@pytest.fixture(scope="session", autouse=True)
def _own_folders(tmp_path_factory):
    """W&B and the Hub keep their caches and settings apart from the user's."""
    folder = tmp_path_factory.mktemp("settings")
    with pytest.MonkeyPatch.context() as patch:
        for name in "WANDB_CACHE_DIR WANDB_CONFIG_DIR WANDB_DATA_DIR HF_HOME".split():
            patch.setenv(name, str(folder))
        yield


@pytest.fixture(scope="session", autouse=True)
def _users_outputs():
    """No test leaves a fake answer about a text where the next sweep of the user would find it."""
    yield
    facts = ROOT / "outputs" / "cache" / "facts.json"
    assert not (facts.exists() and "text of sample" in facts.read_text("utf-8")), facts


@pytest.fixture(autouse=True)
def _seeds():
    """Every test draws the same numbers, alone or among others."""
    random.seed(0)
    # Looked up, not imported: most tests of the sweeper need neither library.
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


class Installed:
    """Installs packages for one test, each a module with a source and entry points."""

    def __init__(self, folder, monkeypatch):
        self.folder = folder
        self._names = []
        monkeypatch.syspath_prepend(folder)

    def __call__(self, package, source, groups):
        """A package 1.2.3 with a module `package`, which registers a `name = module` in each group;
        the file of the module."""
        name = package.replace("_", "-")
        about = self.folder / f"{package}-1.2.3.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2.3\n"
        )
        points = "".join(f"[{group}]\n{line}\n" for group, line in groups.items())
        (about / "entry_points.txt").write_text(points)
        module = self.folder / package / "__init__.py"
        module.parent.mkdir()
        module.write_text(source)
        self._names.append(package)
        self.forget()
        return module

    def forget(self):
        """Forget what a new process would not know."""
        for package in self._names:
            sys.modules.pop(package, None)
        importlib.invalidate_caches()
        registry._registered.cache_clear()
        registry._digest.cache_clear()


@pytest.fixture
def installed(tmp_path, monkeypatch):
    packages = Installed(tmp_path, monkeypatch)
    yield packages
    packages.forget()


def pytest_runtest_setup(item):
    if item.get_closest_marker("gpu"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("needs a CUDA device")
