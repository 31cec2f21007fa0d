"""Tests of sweep.py from the command line to the figures, with models that train in a second."""

import csv
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys

import pytest

from sweeper.__main__ import main
from sweeper.stages.publish import OWN_GRID
from sweeper.store.files import publish_json
from sweeper.store.registry import ROOT
from sweeper.store.runs import RunStore, State
from tests.faults.commands import MARK, checkpoints, kill_marked
from tests.waiting import wait_until

SMALL = (
    "data.sentences=600 task.vocabulary_size=400 task.sequence_length=32 task.batch_tokens=512 "
    "model.feedforward_size=16 optimizer.warmup_steps=5 logger=none trainer.log_every=5"
).split()
TINY = [
    *SMALL,
    "model.layers=1",
    "model.embedding_size=8",
    "trainer.checkpoint_every=5",
]
CANARY = "c0ffee0123456789" * 2 + "deadbeef"  # as long as a key of W&B
SECRETS = ("WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "RAY_AUTH_TOKEN")
GRID = (
    "-m name=grid-heads model.heads=1,2,3,4 model.head_size=4 trainer.steps=20".split()
)


def command(outputs, *arguments):
    return [sys.executable, "sweep.py", *arguments, *TINY, f"paths.outputs={outputs}"]


def completed(*command, code=0, env=(), **options):
    """Run a command, assert its exit code, and return what it printed.

    `env` are variables that are added to those of this process.
    """
    usual = {"cwd": ROOT, "capture_output": True, "text": True, "timeout": 400}
    options = {**usual, "env": os.environ | dict(env), **options}
    ended = subprocess.run([*map(str, command)], check=False, **options)
    assert ended.returncode == code, f"{command}\n{ended.stdout}\n{ended.stderr}"
    return ended


def python(*words, program=sys.executable, **options):
    return completed(program, *words, **options)


def sweep(outputs, *arguments, **options):
    return python(*command(outputs, *arguments)[1:], **options)


def numbers(outputs):
    """Return the metrics and the hash of the weights of every run, without times."""
    store = RunStore(outputs)
    return {
        run: (result := store.run(run).result())
        and (result.metrics, result.weights_sha256)
        for run in store.ids()
    }


def attempts(outputs):
    store = RunStore(outputs)
    return sum(len(store.run(run).attempts()) for run in store.ids())


def rows(outputs, name):
    """Return the rows of an experiment's table."""
    with (outputs / "tables" / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def contents(outputs, *folders):
    """Return the content of every file in folders of an outputs folder."""
    paths = [path for folder in folders for path in (outputs / folder).iterdir()]
    return {path: path.read_bytes() for path in paths}


def kill_at_checkpoint(typed, outputs, finished=0, cwd=ROOT):
    """Kill a program and its jobs once there are more than `finished` checkpoints."""
    mark, quiet = secrets.token_hex(8), subprocess.DEVNULL
    environment = {**os.environ, MARK: mark}
    process = subprocess.Popen(
        typed, cwd=cwd, env=environment, stdout=quiet, stderr=quiet
    )

    def far_enough():
        assert process.poll() is None, "it ended before it could be killed"
        return checkpoints(outputs) > finished

    wait_until(far_enough, "a checkpoint")
    kill_marked(mark)
    process.wait()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The outputs folder and the output of a finished sweep. The folder is a symbolic link."""
    real = tmp_path_factory.mktemp("undisturbed") / "real"
    real.mkdir()
    outputs = real.with_name("outputs")
    outputs.symlink_to(real)
    done = sweep(outputs, *GRID)
    assert done.stderr == ""
    return outputs, done


def test_a_grid_becomes_runs_a_table_and_a_figure(undisturbed):
    outputs, done = undisturbed
    assert len(numbers(outputs)) == 4
    assert all(numbers(outputs).values())
    [pinned] = (outputs / "code").iterdir()
    assert (pinned / "tasks" / "train.py").is_file()
    table = rows(outputs, "grid-heads")
    assert [row["model.heads"] for row in table] == ["1", "2", "3", "4"]
    assert {(row["model.head_size"], row["state"]) for row in table} == {("4", "done")}
    for kind in ("pdf", "png", "svg"):
        assert (outputs / "figures" / f"grid-heads.{kind}").stat().st_size > 1000
    for name in ("figures/grid-heads.png", "report.html"):
        assert f"  {outputs.resolve() / name}\n" in done.stdout
    *earlier, last = re.findall(r"^\[\d/4\] done .*", done.stdout, re.MULTILINE)
    assert len(earlier) == 3
    for line in earlier:
        assert re.search(r", about [\d:.]+( s)? left *$", line)
    assert "left" not in last
    assert OWN_GRID not in done.stdout, "a grid was just trained"


# Environment variables that libraries read (docs/faults.md). HERE is a folder of user files.
HOSTILE = """
GIT_DIR=HERE/other/.git GIT_WORK_TREE=HERE/other GIT_INDEX_FILE=/nowhere GIT_TRACE=1
GIT_TEST_ASSUME_DIFFERENT_OWNER=1
WANDB_SWEEP_ID=abcd1234 WANDB_SWEEP_PARAM_PATH=/nowhere WANDB_CONFIG_PATHS=/nowhere
WANDB_RUN_ID=agentrun WANDB_RUN_DIR=/nowhere WANDB_RESUME=must WANDB_MODE=disabled
WANDB_PROJECT=foreign WANDB_DIR=/nowhere WANDB_CONFIG_DIR=HERE
SLURM_JOB_ID=7 SLURM_NTASKS=4 SLURM_PROCID=3 SLURM_LOCALID=3 SLURM_NODELIST=a,b
SLURM_CPU_BIND=mask_cpu:0x1 SBATCH_PARTITION=nowhere SRUN_CPUS_PER_TASK=1
RANK=3 WORLD_SIZE=4 LOCAL_RANK=3 NODE_RANK=1 MASTER_ADDR=nowhere MASTER_PORT=1
LT_PRECISION=16-true LT_DEVICES=7 LT_STRATEGY=fsdp PL_GLOBAL_SEED=3 TORCHINDUCTOR_CACHE_DIR=/nowhere
MATPLOTLIBRC=HERE MPLBACKEND=foo HYDRA_FULL_ERROR=0 TOKENIZERS_PARALLELISM=true HF_HOME=/nowhere
PYTHONPATH=HERE PYTHONDONTWRITEBYTECODE=1 PYTHONOPTIMIZE=1 PYTHONHASHSEED=7 PYTHONUTF8=0
HOME=HERE LC_ALL=C LANG=tr_TR.UTF-8 TZ=Pacific/Apia COLUMNS=20 NO_COLOR=1
"""


def test_no_variable_and_no_user_file_of_a_library_changes_a_result(
    undisturbed, tmp_path
):
    (tmp_path / "sitecustomize.py").write_text("print('Welcome'); print(7)")
    (tmp_path / "matplotlibrc").write_text("text.usetex: True\nsavefig.dpi: 7\n")
    (tmp_path / ".gitconfig").write_text("[core")
    (tmp_path / "settings").write_text("[default]\nmode = disabled\n")
    completed("git", "init", "-q", tmp_path / "other")
    hostile = HOSTILE.replace("HERE", str(tmp_path)).split()
    environment = dict(one.split("=", 1) for one in hostile)

    outputs, (before, _) = tmp_path / "outputs", undisturbed
    two = ("-m", "name=two", "model.heads=2,3", *GRID[-2:])
    typed = [one for one in command(outputs, *two) if one != "logger=none"]
    done = python(*typed[1:], "logger.mode=offline", env=environment)
    assert done.stderr == ""
    assert (outputs / "figures" / "two.svg").exists()
    assert len(numbers(outputs)) == 2
    assert numbers(outputs).items() <= numbers(before).items()
    commits = {row["code"] for row in rows(outputs, "two")}
    assert commits == {row["code"] for row in rows(before, "grid-heads")}
    mirrored = (outputs / "wandb").glob("offline-run-*")
    assert {path.name.split("-", 3)[-1] for path in mirrored} == numbers(outputs).keys()


def test_tables_and_figures_thrown_away_come_back_to_the_byte(undisturbed):
    outputs, folders = undisturbed[0], ("tables", "figures")
    before = contents(outputs, *folders)
    kinds = {path.suffix for path in before}
    assert kinds == {".csv", ".json", ".pdf", ".png", ".svg", ".drawn"}
    for folder in folders:
        shutil.rmtree(outputs / folder)
    for verb in ("collect", "draw"):
        assert main([verb, "--outputs", str(outputs)]) == 0
    assert contents(outputs, *folders) == before


def test_the_same_command_again_trains_nothing(undisturbed):
    outputs, _ = undisturbed
    before, tries = numbers(outputs), attempts(outputs)
    drawn = contents(outputs, "figures")
    again = sweep(outputs, *GRID, env={"COLUMNS": "0"})
    assert again.stderr == ""
    assert "4 done" in again.stdout
    assert (numbers(outputs), attempts(outputs)) == (before, tries)
    assert contents(outputs, "figures") == drawn


def test_a_sweep_killed_half_way_ends_with_the_numbers_of_an_undisturbed_one(
    undisturbed, tmp_path
):
    """The sweep, its size server and its jobs get SIGKILL once a run has a checkpoint."""
    kill_at_checkpoint(command(tmp_path, *GRID), tmp_path)
    assert not all(numbers(tmp_path).values())
    sweep(tmp_path, *GRID)
    assert numbers(tmp_path) == numbers(undisturbed[0])


DIVERGES = """
-m optimizer.learning_rate=100.0,0.01 optimizer.schedule=constant optimizer.betas=[0.0,0.0]
optimizer.weight_decay=100.0 trainer.steps=6 model.heads=1 model.head_size=4
hydra.launcher.slots=1
""".split()


@pytest.fixture(scope="module")
def failing(tmp_path_factory):
    """A sweep with secrets in its environment. Its first run diverges to NaN at once.

    Its runs are mirrored to W&B, offline.
    """
    folder = tmp_path_factory.mktemp("failing")
    (folder / "home").mkdir()
    environment = dict.fromkeys(SECRETS, CANARY) | {"HOME": str(folder / "home")}
    asked = command(folder / "outputs", *DIVERGES)
    typed = [word for word in asked if word != "logger=none"]
    return folder, python(*typed[1:], code=1, env=environment)


def test_a_failing_run_stops_no_other_and_the_exit_code_says_so(failing):
    folder, done = failing
    store = RunStore(folder / "outputs")
    states = [store.run(run).status().state for run in store.ids()]
    assert sorted(states) == [State.DONE, State.FAILED], done.stdout + done.stderr
    assert "1 of 2 runs not done" in done.stdout
    assert "nan" in done.stdout
    assert "log.txt" in done.stdout


def test_no_secret_of_the_environment_is_found_anywhere(failing, monkeypatch):
    folder, done = failing
    outputs = folder / "outputs"
    for name in SECRETS:
        monkeypatch.setenv(name, CANARY)
    assert main(["report", "--outputs", str(outputs)]) == 0
    assert (outputs / "wandb").is_dir()
    assert CANARY not in done.stdout + done.stderr
    assert holding(b"learning_rate", outputs)  # `holding` finds text that is there
    assert holding(CANARY.encode(), folder) == []


def holding(needle, folder):
    return [p for p in folder.rglob("*") if p.is_file() and needle in p.read_bytes()]


def test_a_dry_run_writes_no_record_and_loads_no_torch_where_sizes_are_known(
    undisturbed, tmp_path
):
    # The cache has the sizes of the grid and the speed of this machine.
    outputs = tmp_path / "outputs"
    shutil.copytree(undisturbed[0] / "cache", outputs / "cache")
    publish_json(outputs / "cache" / "speed.json", {socket.gethostname(): 1e9})
    (tmp_path / "torch.py").write_text("raise SystemExit('imported')")
    environment = {"PYTHONPATH": str(tmp_path)}
    done = sweep(outputs, *GRID, "hydra.sweeper.dry_run=true", env=environment)
    assert done.stderr == ""
    assert "4 points, 4 runs: 4 new" in done.stdout
    assert [path.name for path in outputs.iterdir()] == ["cache"]


# A sitecustomize.py, which every Python process of the sweep executes first.
WITHOUT = """
import builtins, errno, io, os, signal

for module, name in ((os, "sched_getaffinity"), (os, "sched_setaffinity"), (os, "pidfd_open"),
                     (signal, "pidfd_send_signal")):
    delattr(module, name)


def blind(real):
    def call(path, *arguments, **named):
        if isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith("/proc"):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), os.fspath(path))
        return real(path, *arguments, **named)

    return call


for module, name in ((builtins, "open"), (io, "open"), (os, "open"), (os, "stat"),
                     (os, "readlink"), (os, "listdir"), (os, "scandir")):
    setattr(module, name, blind(getattr(module, name)))
"""


@pytest.mark.slow
def test_a_sweep_needs_nothing_that_linux_alone_has(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(WITHOUT)
    environment = {"PYTHONPATH": str(tmp_path)}
    asked = "import os, pathlib; print(hasattr(os, 'pidfd_open'), pathlib.Path('/proc').exists())"
    said = python("-c", asked, env=environment).stdout
    assert said.split() == ["False", "False"]

    outputs = tmp_path / "outputs"
    planned = sweep(outputs, "model.heads=1", "trainer.steps=6", env=environment)
    assert "1 point, 1 run: 1 new." in planned.stdout, planned.stderr
    status = ("-m", "sweeper", "status", "--json", "--outputs", outputs)
    [line] = json.loads(python(*status, env=environment).stdout)
    assert line["state"] == "done"
