"""A failed fork is retried, and a job starts with its modules imported."""

import os
import sys
from unittest.mock import Mock

import pytest

from sweeper.store import registry
from tasks.size_server import fork
from tests.end_to_end.test_sweep import python
from tests.tasks.jobs import config


def test_a_fork_that_is_refused_is_tried_again(monkeypatch):
    refused = BlockingIOError(11, "Resource temporarily unavailable")
    monkeypatch.setattr(fork.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(os, "fork", Mock(side_effect=[refused, refused, refused, 1009]))
    assert fork.forked() == 1009
    monkeypatch.setattr(os, "fork", Mock(side_effect=refused))
    with pytest.raises(BlockingIOError):
        fork.forked()


def test_a_job_whose_log_is_on_a_full_disk_ends_instead_of_going_on_as_its_server():
    program = """if True:
        import os
        from tasks.size_server.fork import become_job

        if (pid := os.fork()) == 0:
            become_job(lambda: print("a line") or 7, log="/dev/full")
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """
    assert python("-c", program).stdout == "7\n"


@pytest.mark.slow
def test_jobs_find_what_they_need_imported_and_no_gpu_in_use(tmp_path):
    """The server must not initialise CUDA, because its forked jobs could not use CUDA then.

    W&B imports 80 modules for each run unless the server has imported them. Importing Lightning
    skips the packages UNUSED, unless they are already imported. They can be imported afterwards.
    """
    # Fake installed versions of these packages.
    for absent in ("torchvision", "transformers"):
        (tmp_path / f"{absent}.py").touch()
        about = tmp_path / f"{absent}-9.0.dist-info" / "METADATA"
        about.parent.mkdir()
        about.write_text(f"Metadata-Version: 2.1\nName: {absent}\nVersion: 9.0\n")
    program = f"""if True:
        import scipy, sys, torch

        def refuse(*_):
            raise SystemExit("asked for a GPU")

        for name in ("is_available", "device_count", "current_device", "init", "_lazy_init"):
            assert hasattr(torch.cuda, name)
            setattr(torch.cuda, name, refuse)
        sys.path.insert(0, sys.argv[1])
        from tasks.size_server.fork import UNUSED, import_lightning, preload

        import_lightning()  # first, as the server does
        from tasks.size_server.sizes import size

        preload(logger="wandb")
        size({config()!r})
        assert "pytorch_lightning" in sys.modules
        print(*(name for name in UNUSED if name in sys.modules))
        assert sys.modules["scipy"] is scipy
        before = set(sys.modules)
        import wandb
        wandb.init(project="p", mode="offline", dir=sys.argv[1]).finish()
        print(sum(name.startswith("wandb.") for name in set(sys.modules) - before))
        import matplotlib.pyplot, scipy.signal, torchvision, transformers
        print(scipy.signal.__name__)
    """
    done = python("-c", program, tmp_path)
    unused, *_, from_wandb, importable = done.stdout.splitlines()
    assert (unused, importable) == ("scipy", "scipy.signal")
    assert int(from_wandb) < 20


def test_jobs_import_no_task_of_a_package_before_they_use_it(installed):
    installed("spoilt_task", "1 / 0", {"headroom.tasks": "spoilt_task = spoilt_task"})
    fork.preload("none")
    assert "spoilt_task" in registry.names(registry.TASKS)
    assert "spoilt_task" not in sys.modules
