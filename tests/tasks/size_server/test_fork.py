"""A fork that is refused is tried again; a job finds its modules imported."""

import os
import subprocess
import sys

import pytest

from tasks.size_server import fork


@pytest.mark.parametrize("refusals", [0, 3, 4])
def test_a_fork_that_is_refused_is_tried_again(refusals, monkeypatch):
    answers = [BlockingIOError(11, "Resource temporarily unavailable")] * refusals + [1009]

    def answer():
        if isinstance(one := answers.pop(0), Exception):
            raise one
        return one

    waited = []
    monkeypatch.setattr(os, "fork", answer)
    monkeypatch.setattr(fork.time, "sleep", waited.append)
    if refusals > 3:
        with pytest.raises(BlockingIOError):
            fork.forked()
    else:
        assert fork.forked() == 1009
    assert len(waited) == min(refusals, 3)


def _said(code, *arguments):
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_what_wandb_imports_for_each_run_is_imported(tmp_path):
    code = """if True:
        import sys, wandb
        from tasks.size_server.fork import preload
        preload(logger="wandb")
        before = set(sys.modules)
        wandb.init(project="p", mode="offline", dir=sys.argv[1]).finish()
        print(sum(name.startswith("wandb.") for name in set(sys.modules) - before))
    """
    assert int(_said(code, str(tmp_path)).splitlines()[-1]) < 20  # 80 without


def test_what_lightning_does_not_need_is_left_out_and_can_be_imported_afterwards(tmp_path):
    for absent in ("torchvision", "transformers"):  # as if they were installed, of any version
        (tmp_path / absent).mkdir()
        (tmp_path / absent / "__init__.py").touch()
        (tmp_path / f"{absent}-9.0.dist-info").mkdir()
        about = f"Metadata-Version: 2.1\nName: {absent}\nVersion: 9.0\n"
        (tmp_path / f"{absent}-9.0.dist-info" / "METADATA").write_text(about)
    code = """if True:
        import sys
        sys.path.insert(0, sys.argv[1])
        from tasks.size_server.fork import UNUSED, preload
        preload(logger="none")
        assert "pytorch_lightning" in sys.modules
        print(*(name for name in UNUSED if name in sys.modules), sep=",")
        import matplotlib.pyplot, scipy.signal, torchvision, transformers
        print(scipy.signal.__name__)
    """
    assert _said(code, str(tmp_path)).splitlines() == ["", "scipy.signal"]


def test_what_is_imported_already_stays():
    code = """if True:
        import matplotlib, sys
        from tasks.size_server.fork import preload
        preload(logger="none")
        print(sys.modules["matplotlib"] is matplotlib)
    """
    assert _said(code).splitlines() == ["True"]
