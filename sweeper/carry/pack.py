"""What a pack holds: records, prepared data, the code that trains, and words on how to use it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from sweeper.carry.archive import Content, write_archive
from sweeper.carry.run_files import folder_files, run_files
from sweeper.size_server import SizeServer
from sweeper.store import registry
from sweeper.store.code import Code, needed
from sweeper.store.errors import UserError
from sweeper.store.identity import digest_of
from sweeper.store.runs import Run, RunStore, State

ENTRY = "sweeper/carry/entry.py"
NEEDS = ("torch", "numpy", "pydantic", "pytorch-lightning")
"""What a job imports, by the names under which it can be installed."""

README = """\
# {name}

{runs} planned training runs of {experiments}, with their data and the code that trains them.

    python run.py

trains all of it on the GPUs of this machine, or on its cores where it has none: parents first, the
longest first. Stopped or killed, the same command continues. `python run.py --help` says more.
At the end `results.tar` lies beside this file. Bring it home; there,

    python -m sweeper merge results.tar

puts the runs where they would lie had they been trained there.

Needed here: Python 3.11 or newer and, in brackets as they are at home, {needs}.
The same versions on the same kind of processor give the same bits. No network is needed.
{wheels}"""
NO_WHEELS = """
What is missing is named when run.py starts. Where no package index can be reached, wheels can come
along: `python -m pip download --dest DIR {pinned}` where one can, on the same
kind of machine with the same Python, and `python -m sweeper pack ... --wheels DIR`.
"""
WHEELS = """
`wheels/` holds what may be missing: `python -m pip install --no-index --no-deps wheels/*.whl`.
"""


def unfinished(outputs: Path, plans: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The runs of planned experiments that are not done, with those that they start from: what
    each costs, its parent and its label, by id.

    Args:
        plans: the plan of each experiment.

    Raises:
        UserError: one of them is trained at this moment, or all are done.
    """
    store, found = RunStore(outputs), {}
    for name, plan in plans.items():
        for point in plan["points"]:
            id = point["run"] if point["experiment"] == name else None
            while id and id not in found:
                state = store.run(id).status().state
                if state is State.RUNNING:
                    raise UserError(f"{id} of {name} is being trained here; stop that first.")
                if state is State.DONE:
                    break
                found[id] = _about(store.run(id), plan["runs"][id])
                id = found[id]["parent"]
    if not found:
        raise UserError(f"all runs of {', '.join(plans)} are done; there is nothing to carry.")
    return found


def write_pack(
    path: Path,
    store: RunStore,
    runs: Mapping[str, Mapping[str, Any]],
    about: Mapping[str, Any],
    process: SizeServer,
    *,
    wheels: Path | None,
    max_mb: float | None,
) -> list[Path]:
    """Write the pack of `unfinished` runs, whose data are prepared; the files written.

    Args:
        about: the names of the `experiments`, and the sections (`options`) that say how to train.
        wheels: a folder of wheels to take along.
    """
    needs = {name: version(name) for name in NEEDS}
    pinned = " ".join(f"{name}=={number.partition('+')[0]}" for name, number in needs.items())
    readme = README.format(
        name=path.name.partition(".")[0],
        runs=len(runs),
        experiments=", ".join(about["experiments"]),
        needs=", ".join(f"{name} ({number})" for name, number in needs.items()),
        wheels=WHEELS if wheels else NO_WHEELS.format(pinned=pinned),
    )
    configs = [store.run(id).record()["config"] for id in runs]
    files = {
        "README.md": readme.encode(),
        "run.py": registry.ROOT / ENTRY,
        **_under("code", needed(Code.read(), configs)),
        **_under("outputs", _outputs(store, runs, configs, process)),
        **(_under("wheels", {file.name: file for file in wheels.glob("*.whl")}) if wheels else {}),
    }
    return write_archive(
        path, files, {"kind": "pack", **about, "needs": needs, "runs": runs}, max_mb
    )


def _about(run: Run, planned: Mapping[str, Any]) -> dict[str, Any]:
    size, names = planned["size"], run.record()["names"]
    return {
        "cost": size["tokens"] * size["flops_per_token"],
        "parent": planned["parent"],
        "label": f"{names['experiment']}/{names['arm']} {names['label']}",
    }


def _outputs(
    store: RunStore,
    runs: Mapping[str, Mapping[str, Any]],
    configs: Sequence[Mapping[str, Any]],
    process: SizeServer,
) -> dict[str, Content]:
    """Records, prepared data, and what parents that are done here have learned."""
    found: dict[str, Content] = {}
    for id in {*runs, *(about["parent"] for about in runs.values() if about["parent"])}:
        found |= run_files(store.run(id))
    distinct: dict[str, Mapping[str, Any]] = {}
    for config in configs:
        distinct.setdefault(digest_of([config["data"], config["task"]]), config)
    for answer in process.ask({"op": "data", "config": config} for config in distinct.values()):
        if "error" in answer:
            raise UserError(str(answer["error"]))
        found |= folder_files(store.outputs, store.outputs / "data" / answer["prepared"])
    return found


def _under(folder: str, files: Mapping[str, Content]) -> dict[str, Content]:
    return {f"{folder}/{name}": content for name, content in files.items()}
