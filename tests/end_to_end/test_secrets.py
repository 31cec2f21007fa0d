"""What the environment holds of secrets reaches no file and no terminal."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.end_to_end.test_sweep import ROOT, command

CANARY = "c0ffee0123456789" * 2 + "deadbeef"  # as long as a key of W&B
SECRETS = ("WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "RAY_AUTH_TOKEN")
# One run is done, one fails with a traceback; both are mirrored to W&B, offline.
GRID = ["-m", "optimizer.learning_rate=0.01,100.0", "optimizer.schedule=constant",
        "optimizer.betas=[0.0,0.0]", "optimizer.weight_decay=100.0", "trainer.steps=6",
        "model.heads=1", "model.head_size=4"]  # fmt: skip


def holding(needle: bytes, folder: Path) -> list[Path]:
    return [p for p in folder.rglob("*") if p.is_file() and needle in p.read_bytes()]


def test_no_secret_of_the_environment_is_found_anywhere(tmp_path):
    outputs, home = tmp_path / "outputs", tmp_path / "home"
    home.mkdir()
    environment = {**os.environ, **dict.fromkeys(SECRETS, CANARY), "HOME": str(home)}
    typed = [word for word in command(outputs, *GRID) if word != "logger=none"]
    process = subprocess.Popen(
        typed,
        cwd=ROOT,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    said, _ = process.communicate(timeout=300)
    assert process.returncode == 1, said
    assert "1 of 2 runs are not done" in said
    assert (outputs / "wandb").is_dir()
    report = [typed[0], "-m", "sweeper", "report", "--outputs", str(outputs)]
    subprocess.run(report, cwd=ROOT, env=environment, check=True, capture_output=True)
    assert CANARY not in said
    assert holding(b"learning_rate", outputs)  # what is there would be found
    assert holding(CANARY.encode(), tmp_path) == []
