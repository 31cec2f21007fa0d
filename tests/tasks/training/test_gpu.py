"""Runs on GPUs or on two devices give the same results, and all their processes end."""

import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from torch.multiprocessing.spawn import start_processes

from models.attention._fused import attended
from models.mask import attention_mask
from sweeper.store.attempts import Cause
from sweeper.store.files import publish_json
from sweeper.store.runs import State
from tasks.training import distributed, machine
from tasks.training.captured import CapturedSteps
from tasks.training.job import INTERRUPTED
from tasks.training.steps import Steps, fabric_for
from tests.conftest import ROOT
from tests.tasks.jobs import (
    assert_alike,
    ended,
    freeze,
    last_word,
    log_of,
    resumed_from,
    science,
)
from tests.tasks.small import SMALL, opened
from tests.waiting import wait_until

GPU = {"trainer.accelerator": "gpu", "trainer.precision": "bf16-mixed"}
on_text = pytest.mark.parametrize("name", ["lm1b", "pretraining", "mnli", "squad"])


def started(run, variables=()):
    """Start a job in a new process, because a forked one may be unable to use CUDA."""
    command = [sys.executable, "-m", "tasks.train", str(run.path)]
    variables = os.environ | dict(variables)
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL, env=variables)


def trained(outputs, name, changes):
    """Train a run in a new process."""
    run = freeze(outputs, changes, name)
    assert started(run).wait() == 0
    return run


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_the_same_record_gives_the_same_bits_there_too(precision, outputs):
    # At this size, the gradient of fused attention is summed in blocks. Their order is random,
    # unless deterministic algorithms are required.
    shape = {
        "model.head_size": 32,
        "task.sequence_length": 256,
        "task.batch_tokens": 3 * 256,
    }
    changes = {**GPU, "trainer.precision": precision, **shape}
    one, other = (trained(outputs, name, changes) for name in ("one", "other"))
    assert science(one) == science(other)


@pytest.mark.gpu
@on_text
def test_steps_that_are_recorded_give_the_bits_of_plain_ones(name, outputs):
    plain, recorded = (
        trained(
            outputs, str(graph), {**SMALL[name], **GPU, "trainer.cuda_graph": graph}
        )
        for graph in (False, True)
    )
    assert science(recorded) == science(plain)
    assert "without CUDA graphs" not in log_of(recorded)


@pytest.mark.gpu
@on_text
def test_a_run_that_is_stopped_there_continues_with_the_same_bits(name, outputs):
    changes = {**SMALL[name], **GPU, "trainer.steps": 400}
    whole, stopped = trained(outputs, "whole", changes), freeze(outputs, changes)
    process = started(stopped)
    wait_for_a_checkpoint(stopped, process)
    process.send_signal(signal.SIGTERM)
    assert process.wait() == INTERRUPTED
    assert started(stopped).wait() == 0
    assert resumed_from(stopped) > 0
    assert science(stopped) == science(whole)


@pytest.mark.gpu
@pytest.mark.parametrize("spoiler", ["a wait", "a number of Python"])
def test_a_step_that_cannot_be_recorded_is_taken_plainly(spoiler, shared, capfd):
    machine.compute_repeatably("cuda")
    changes = {**GPU, "trainer.precision": "32-true"}

    def spoil(module, inputs, output):
        factor = output.amax().item() if spoiler == "a wait" else float(next(called))
        return output * (1 + 1e-3 * factor)

    found = []
    for recorded in (False, True):
        called = itertools.count()
        module = opened(shared, changes)
        fabric = fabric_for(module.config.trainer, "cuda")
        module.model.final_norm.register_forward_hook(spoil)
        steps = Steps(fabric, module)
        take = CapturedSteps(steps) if recorded else steps
        for number in range(5):
            batch = module.data.batch(number + 1)
            take(number, {name: one.to(fabric.device) for name, one in batch.items()})
        found.append([one.detach().cpu() for one in module.parameters()])
    assert "training continues without CUDA graphs" in capfd.readouterr().out
    # The attempt to capture calls the hook more often, which changes the other spoiler's factor.
    if spoiler == "a wait":
        assert all(map(torch.equal, *found))


@pytest.mark.gpu
@pytest.mark.parametrize("head_size", [8, 64])
def test_attention_that_skips_what_a_causal_mask_hides_gives_the_same_bits(head_size):
    machine.compute_repeatably("cuda")
    segments_BT = (torch.rand(7, 256, device="cuda") < 0.05).cumsum(1) + 1
    mask_B1TT = attention_mask(segments_BT, causal=True)
    shape = (7, 3, 256, head_size)
    qkv = [torch.randn(shape, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
    for one in qkv:
        one.requires_grad_()
    found = []
    for skips in (True, False):
        mask_B1TT.causal = skips
        torch.manual_seed(0)
        context = attended(*qkv, mask_B1TT, dropout=0.1, scale=0.3)
        found.append(
            [context, *torch.autograd.grad(context.float().square().sum(), qkv)]
        )
    assert all(map(torch.equal, *found))


def wait_for_a_checkpoint(run, process, before=()):
    while run.checkpoints()[:1] == [*before]:
        assert process.poll() is None, "it ended before its first checkpoint"
        time.sleep(0.02)


def in_training(outputs):
    """Start a long run on two devices. Return it, its process, and the pids of its ranks."""
    run = freeze(outputs, {"trainer.devices": 2, "trainer.steps": 10**6})
    process = started(run)
    wait_for_a_checkpoint(run, process)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
    # Python starts one more process, which tracks the resources that the ranks share.
    ranks = [
        int(pid)
        for pid in children.split()
        if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()
    ]
    return run, process, ranks


@pytest.mark.slow
@pytest.mark.parametrize("name", ["squad", "pretraining", "representation"])
def test_ranks_share_the_rows_and_the_evaluation_of_every_kind_of_data(tmp_path, name):
    # With dropout, each rank would draw other masks.
    own = {"model.dropout": 0.0}
    if name == "representation":
        # With two problems, broadcasting would hide that the ranks wrongly split them.
        own = {"task.problems_per_run": 2}
    changes = {**SMALL[name], **own}
    alone = ended(tmp_path, changes, "one")
    two = trained(tmp_path, "two", {**changes, "trainer.devices": 2})
    assert_alike(two, alone, rel=1e-4)


@pytest.mark.slow
def test_a_run_that_is_stopped_continues_on_any_number_of_devices(tmp_path):
    changes = {"model.dropout": 0.0, "trainer.steps": 61}
    alone, codes = ended(tmp_path, changes, "one"), []
    for devices in (2, 1, 2):
        run = freeze(tmp_path, {**changes, "trainer.devices": devices}, "moved")
        process, before = started(run), run.checkpoints()[:1]
        if len(codes) < 2:
            wait_for_a_checkpoint(run, process, before)
            process.send_signal(signal.SIGTERM)
        codes.append(process.wait())
    assert codes == [INTERRUPTED, INTERRUPTED, 0]
    resumed = [attempt.info()["resumed_from"] for attempt in run.attempts()]
    assert 0 == resumed[0] < resumed[1] < resumed[2]
    assert run.result().device.startswith("2 x ")
    assert_alike(run, alone, rel=1e-5)
    assert science(run)["tokens_seen"] == science(alone)["tokens_seen"]


@pytest.mark.slow
def test_nodes_meet_where_the_launcher_says_and_work_in_parts(tmp_path):
    """The nodes have three and four of the seven rows, each split into two parts."""
    rows = {"model.dropout": 0.0, "task.batch_tokens": 7 * 31}
    alone = ended(tmp_path, rows, "one")
    run = freeze(tmp_path, {**rows, "trainer.num_nodes": 2}, "nodes")
    publish_json(run.path / "micro_batches.json", {"micro_batches": 2})
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    nodes = [started(run, {**meeting, "NODE_RANK": str(node)}) for node in (0, 1)]
    assert [node.wait() for node in nodes] == [0, 0]
    assert run.attempts()[0].info()["micro_batches"] == 2
    assert_alike(run, alone, rel=1e-4)


@pytest.mark.slow
def test_a_rank_that_is_killed_ends_the_run_as_one_to_start_again(tmp_path):
    run, process, ranks = in_training(tmp_path)
    assert len(ranks) == 2
    first = run.attempts()[0].info()["pid"]
    other = next(pid for pid in ranks if pid != first)
    os.kill(other, signal.SIGKILL)
    assert process.wait() == 1
    assert run.status().state is State.INTERRUPTED
    assert run.status().cause is Cause.KILLED
    assert not Path(f"/proc/{first}").exists()


@pytest.mark.slow
def test_the_ranks_of_a_job_that_is_killed_stop_and_can_be_continued(tmp_path):
    run, process, _ = in_training(tmp_path)
    process.kill()
    process.wait()
    [attempt] = run.attempts()
    wait_until(attempt.exit, "the end of the ranks")
    assert attempt.exit()["cause"] == "interrupted"
    assert run.checkpoints()


def hang_or_fail(rank):
    """Ignore SIGTERM and hang as rank 0. Fail as rank 1."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if rank:
        sys.exit(3)
    time.sleep(600)


def test_a_rank_that_hangs_is_ended_once_a_later_one_has_failed(monkeypatch):
    monkeypatch.setattr(distributed, "GRACE_S", 0.5)
    ranks = start_processes(hang_or_fail, nprocs=2, join=False)
    assert distributed.exit_code_of(ranks) == 3
    assert ranks.processes[0].exitcode == -signal.SIGKILL


@pytest.mark.slow
def test_more_devices_than_a_batch_has_rows_is_one_sentence(tmp_path):
    run = freeze(tmp_path, {"trainer.devices": 2, "task.batch_tokens": 31})
    assert started(run).wait() == 1
    word = last_word(run)
    assert word["cause"] == "config"
    assert "The run uses 2 devices" in word["message"]
