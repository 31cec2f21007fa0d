"""Slurm without a Slurm: how jobs are handed in, share and end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sweeper.run.backend import Resources
from sweeper.run.backends.slurm import SILENT
from sweeper.store.errors import UserError
from tests.policies import launcher
from tests.sweeper.run.fake_slurm import Slurm, usual


@pytest.fixture
def slurm(tmp_path, monkeypatch):
    return lambda **options: Slurm(tmp_path, monkeypatch, **options)


def test_what_is_refused_is_handed_in_when_there_is_room(slurm):
    cluster = slurm(array=4, room=6)
    for number in range(9):
        cluster.start(f"r{number}")
    cluster.look()
    assert [runs for runs, _ in cluster.handed_in] == [[f"r{number}"] for number in range(6)]
    assert "QOSMaxSubmitJobPerUserLimit" in cluster.backend.note
    for job in ("1", "2", "3"):
        cluster.states[job] = "FAILED"
    assert len(cluster.look()) == 3
    cluster.room = 9
    cluster.look()
    assert len(cluster.handed_in) == 9
    assert cluster.backend.note == ""


def test_a_child_is_handed_in_behind_its_parent_and_never_before(slurm):
    cluster = slurm(room=0)
    parent = cluster.start("parent")
    child = cluster.start("child", parent="parent", after=parent)
    cluster.look()
    assert cluster.handed_in == []
    cluster.room = 9
    cluster.look()
    cluster.look()
    assert cluster.handed_in == [(["parent"], ""), (["child"], "1")]
    cluster.states |= {"1": "FAILED", "2": "CANCELLED"}
    assert cluster.look() == [parent, child]
    assert cluster.backend.exit_reason(child) == ""  # it was dropped, not cancelled by anyone


@pytest.mark.parametrize("state", ["PREEMPTED", "NODE_FAIL", "BOOT_FAIL"])
def test_a_job_that_the_cluster_took_away_is_handed_in_again(slurm, state):
    cluster = slurm()
    parent = cluster.start("parent")
    child = cluster.start("child", parent="parent", after=parent)
    cluster.look()
    cluster.look()
    cluster.states |= {"1": state, "2": "CANCELLED"}
    assert cluster.look() == [child]
    assert cluster.backend.exit_reason(child) == ""
    cluster.look()
    assert cluster.handed_in[2:] == [(["parent"], "")]


def test_small_runs_share_a_job_until_it_takes_its_time(slurm):
    cluster = slurm(job_min=1)
    for name, seconds in zip("abcdefg", (25, 25, 25, 90, 10, None, 5), strict=True):
        assert cluster.start(name, seconds) is not None
    cluster.look()
    assert [runs for runs, _ in cluster.handed_in] == [["a", "b", "e"], ["c", "g"], ["d"], ["f"]]


def test_only_alike_runs_share_a_job_and_none_where_that_is_not_wanted(slurm):
    cluster = slurm(job_min=1)
    parent = cluster.start("parent", 5)
    cluster.start("child", 5, parent="parent", after=parent)
    cluster.start("other", 5)
    cluster.look()
    cluster.look()
    assert [runs for runs, _ in cluster.handed_in] == [["parent", "other"], ["child"]]
    alone = slurm(job_min=0)
    for name in "xy":
        alone.start(name, 5)
    alone.look()
    assert [runs for runs, _ in alone.handed_in] == [["x"], ["y"]]


def test_a_job_that_shares_ends_only_what_it_had_begun(slurm):
    cluster = slurm(job_min=1)
    begun = [cluster.start(name, 5) for name in "abcd"]
    cluster.look()
    runs = [*cluster.backend._of[begun[0]].runs.values()]
    (runs[0] / "attempts" / "0001").mkdir(parents=True)
    cluster.states["1"] = "OUT_OF_MEMORY"
    assert cluster.look() == begun[:1]
    assert "its use of host memory" in cluster.backend.exit_reason(begun[0])
    cluster.look()
    assert cluster.handed_in[1:] == [(["b", "c", "d"], "")]
    cluster.states["2"] = "FAILED"  # before it had begun anything: the runs' tries are counted
    assert cluster.look() == begun[1:]


def test_nothing_is_started_or_lost_while_slurm_does_not_answer(slurm):
    cluster = slurm()
    cluster.said = None
    assert cluster.start("a") is None
    assert cluster.backend.note == SILENT
    cluster.said = {}
    handle = cluster.start("a")
    cluster.look()
    cluster.said = None
    assert cluster.look() == []
    assert cluster.backend.note == SILENT
    cluster.said, cluster.states = {"1": "name"}, {"1": "COMPLETED"}
    assert cluster.look() == [handle]
    assert cluster.backend.note == ""


def test_a_job_of_several_runs_is_asked_to_stop_once(slurm):
    cluster = slurm(job_min=1)
    handles = [cluster.start(name, 5) for name in "ab"]
    cluster.look()
    sent = []
    for handle in handles:
        cluster.said.pop("1", None)
        cluster.backend.signal(handle, 15)
        sent.append("1" in cluster.said)
    assert sent == [True, False]


def test_a_sweep_is_left_once_however_often_it_is_typed(slurm, monkeypatch):
    cluster, left = slurm(), []

    def leave(outputs, name, options, command, code):
        left.append(name)
        cluster.said["7"] = name
        return "7"

    monkeypatch.setattr("sweeper.run.backends.slurm.leave", leave)
    told = [cluster.backend.leave(["python", "sweep.py", "-m", "seed=1,2"]) for _ in range(2)]
    assert told[0] == told[1]
    assert "the sweep is Slurm job 7 " in told[0]
    assert len(left) == 1
    cluster.said = None
    with pytest.raises(UserError, match="does not answer"):
        cluster.backend.leave(["python", "sweep.py"])


def test_gpus_of_a_type_are_asked_for_instead_of_so_many():
    options = replace(usual(), gres="gpu:a100:2", exclude="n[03,17]", reservation="course")
    gpu, cpu = (Resources(kind, devices=1, nodes=1, threads=1) for kind in ("auto", "cpu"))
    assert options.request(gpu).keys() & {"gres", "gpus_per_node"} == {"gres"}
    assert not options.request(cpu).keys() & {"gres", "gpus_per_node"}
    assert options.sbatch()["exclude"] == "n[03,17]"
    assert options.further() == {"reservation": "course"}
    with pytest.raises(UserError, match=r"hydra\.launcher\.mail_user=.*a word without blanks"):
        launcher("slurm", mail_user="'a b'")
