"""Compiled runs: each shape once, in no place where others can write, and what they learn."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import nn
from torch._dynamo.exc import TensorifyScalarRestartAnalysis

from sweeper.store.runs import Run
from tasks.training import compile_cache
from tests.conftest import ROOT
from tests.tasks.jobs import freeze, science

# A job that says how many graphs it has compiled, and how many it found compiled.
JOB = """if True:
    import json, sys
    from torch._dynamo.utils import counters
    from tasks.train import main

    code = main(sys.argv[1])
    found = {**counters["inductor"], **counters["aot_autograd"]}
    with open(sys.argv[2], "w") as file:
        json.dump({key: count for key, count in found.items() if "_cache_" in key}, file)
    sys.exit(code)
"""
# A model that compiles sooner than any of a task's.
SMALL = """if True:
    import sys
    from pathlib import Path
    import torch
    from torch import nn
    from torch.nn.functional import gelu, linear
    from tasks.training.compile_cache import compile_blocks

    class Block(nn.Linear):
        def forward(self, x):
            return gelu(super().forward(x))

    model = nn.Module()
    model.blocks = nn.ModuleList([Block(3, 5)])
    compile_blocks(model, Path(sys.argv[1]), Path(sys.argv[2]))
    x = torch.randn(2, 3)
    torch.testing.assert_close(model.blocks[0](x), gelu(linear(x, *model.blocks[0].parameters())))
"""


def start(program, *arguments, temporary):
    """In a process of its own, as on a cluster, with a temporary folder and settings of its own."""
    mine = {key: value for key, value in os.environ.items() if key != compile_cache.CHOSEN}
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(
        command, cwd=ROOT, env={**mine, "TMPDIR": str(temporary)}, stdout=subprocess.PIPE, text=True
    )


def finish(job):
    """Its exit code and what it said."""
    said, _ = job.communicate()
    return job.returncode, said


class Sweep(NamedTuple):
    """Compiled runs of one shape: two that started together, one later; and one not compiled."""

    counts: list[dict[str, int]]  # of graphs, and of pairs of a forward and a backward graph
    code: list[list[Path]]  # after the first two, after the third
    runs: list[Run]
    plain: Run
    temporary: Path


@pytest.fixture(scope="module")
def sweep(prepared, tmp_path_factory):
    outputs, temporary = prepared, tmp_path_factory.mktemp("temporary")
    same = {"model.dropout": 0.0}  # masks are drawn in another order where they are compiled
    plain = freeze(outputs, {**same, "seed": 3}, name="plain")
    runs = [
        freeze(outputs, {**same, "seed": seed, "trainer.compile": True}, name=f"seed-{seed}")
        for seed in (3, 5, 7)
    ]
    code = []
    for together in (runs[:2], runs[2:], [plain]):
        jobs = [
            start(JOB, run.path, outputs / f"{run.id}.json", temporary=temporary)
            for run in together
        ]
        assert [finish(job)[0] for job in jobs] == [0] * len(jobs)
        code.append(sorted((outputs / "compiled").rglob("*.so")))
    counts = [json.loads((outputs / f"{run.id}.json").read_text()) for run in runs]
    return Sweep(counts, code[:2], runs, plain, temporary)


GRAPHS = ("fxgraph", "autograd")


def total(counts, kind):
    return [sum(count.get(f"{of}_cache_{kind}", 0) for count in counts) for of in GRAPHS]


@pytest.mark.slow
def test_runs_of_one_shape_compile_it_once_together_or_later(sweep):
    both = sweep.counts[:2]
    assert total(both, "miss") == total(both, "hit")
    assert all(total(both, "miss"))
    assert total(sweep.counts[2:], "miss") == [0, 0]  # the later one compiles nothing
    assert total(sweep.counts[2:], "hit") == total(both, "miss")
    assert sweep.code[0]
    assert sweep.code[1] == sweep.code[0]


@pytest.mark.slow
def test_nothing_compiled_lies_where_other_users_could_put_it(sweep):
    assert not [path for path in sweep.temporary.rglob("*") if path.is_file()]
    folder = sweep.runs[0].outputs / "compiled"
    assert (folder.stat().st_mode & 0o777) == 0o700
    assert not list(sweep.runs[0].path.rglob("compiled"))


@pytest.mark.slow
def test_a_compiled_run_learns_what_a_plain_one_does(sweep):
    plain, found = science(sweep.plain), science(sweep.runs[0])
    assert found["metrics"] == pytest.approx(plain["metrics"], rel=1e-4)
    assert found["weights_sha256"] != plain["weights_sha256"]  # rounded otherwise: it was compiled


@pytest.mark.slow
def test_damaged_files_do_not_end_a_run(tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS", "0")  # not worth it here
    outputs, own, temporary = (tmp_path / name for name in ("outputs", "own", "temporary"))
    temporary.mkdir()
    assert finish(start(SMALL, outputs, own, temporary=temporary)) == (0, "")
    assert not own.exists()
    damaged = [path for path in outputs.rglob("*") if path.suffix in (".py", ".so")]
    assert damaged
    for path in damaged:
        os.truncate(path, path.stat().st_size // 2)
    code, said = finish(start(SMALL, outputs, own, temporary=temporary))
    assert code == 0
    assert "is not used to compile: " in said
    assert list(own.rglob("*.so"))


class Inductor:
    """Notes where it was asked to compile."""

    def __init__(self):
        self.folders: list[str] = []

    def __call__(self, graph, inputs):
        self.folders.append(os.environ[compile_cache.CHOSEN])
        return graph.forward


class Block(nn.Module):
    def forward(self, x_T):
        return x_T + 1


@pytest.fixture
def inductor(monkeypatch):
    monkeypatch.setenv(compile_cache.CHOSEN, "")  # so that it is put back
    monkeypatch.delenv(compile_cache.CHOSEN)
    for name in ("_HEADER_DIR", "_HEADER_LOCK_DIR"):
        monkeypatch.setattr(compile_cache.codecache, name, getattr(compile_cache.codecache, name))
    found = Inductor()
    monkeypatch.setattr(compile_cache, "lookup_backend", lambda name: found)
    return found


def compile_one(outputs):
    model = nn.Module()
    model.blocks = nn.ModuleList([Block()])
    torch._dynamo.reset()
    compile_cache.compile_blocks(model, outputs, outputs / "own")
    assert model.blocks[0](torch.ones(2)).tolist() == [2, 2]


def test_a_folder_that_cannot_be_used_is_replaced_by_the_runs_own(inductor, tmp_path, capsys):
    (tmp_path / "compiled").touch()
    compile_one(tmp_path)
    assert inductor.folders == [str(tmp_path / "own")]
    [said] = capsys.readouterr().out.splitlines()
    assert "is not used to compile: FileExistsError" in said


def test_a_trace_that_torch_begins_again_is_not_taken_for_a_damaged_folder(
    inductor, tmp_path, capsys
):
    graphs = []

    def again_first(graph, inputs):
        graphs.append(graph)
        if len(graphs) == 1:
            raise TensorifyScalarRestartAnalysis(restart_reason="other assumptions")
        return graph.forward

    inductor.__class__ = type("Again", (Inductor,), {"__call__": staticmethod(again_first)})
    compile_one(tmp_path)
    assert len(graphs) == 2
    assert capsys.readouterr().out == ""


def test_a_folder_is_found_from_wherever_the_compiler_is_started(inductor, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    compile_one(Path("outputs"))
    [folder] = inductor.folders
    assert Path(folder).parent == tmp_path / "outputs" / "compiled"
    assert Path(compile_cache.codecache._HEADER_DIR).parent == Path(folder)


def test_a_folder_that_a_person_chose_is_used(inductor, tmp_path, monkeypatch):
    monkeypatch.setenv(compile_cache.CHOSEN, str(tmp_path / "chosen"))
    compile_one(tmp_path)
    assert inductor.folders == [str(tmp_path / "chosen")]


def test_the_default_that_torch_sets_itself_is_no_choice(inductor, tmp_path, monkeypatch):
    torch._inductor.runtime.cache_dir_utils.cache_dir()
    assert os.environ[compile_cache.CHOSEN]
    compile_one(tmp_path)
    [folder] = inductor.folders
    assert Path(folder).parent == tmp_path / "compiled"
