"""Runs that were trained elsewhere and mirrored online, taken back as plans and records.

What is taken is what the mirror carries word by word (sweeper/store/mirrored.py), so tables made of
it have the bytes they would have had there, but for what no finished run tells: `state` and
`reason` of runs that are not done, which are `new` here. Weights and training curves stay there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sweeper.results.wandb.service import Project, connected, sentences
from sweeper.store.errors import UserError, wrong
from sweeper.store.mirrored import KEY, PLAN, RECORD, opened_plan, restore
from sweeper.store.plans import plans, write_plan
from sweeper.store.runs import RunStore

OPTION = "--from wandb"
_PAGE = 100  # runs in one answer of the server


@dataclass
class Fetched:
    """What came of fetching: run ids, and sentences on those that could not be taken."""

    done: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def in_words(self) -> str:
        """All of it in a sentence."""
        parts = [f"{len(self.done)} done"]
        parts += [f"{len(self.unfinished)} not done there"] if self.unfinished else []
        parts += [f"{len(self.refused)} refused"] if self.refused else []
        return f"runs from Weights & Biases: {', '.join(parts)}"


def fetch(outputs: Path, path: str, experiments: Sequence[str] | None = None) -> Fetched:
    """Brings the plans of a project that are not here, and the runs that the plans name.

    Args:
        path: ENTITY/PROJECT, or ENTITY/PROJECT/GROUP for the runs of one group alone.
        experiments: whose runs; all if None.

    Raises:
        UserError: no key, no such project, or no plan for what was asked.
    """
    project, group = Project.parse(path, OPTION)
    api = connected()
    with sentences():
        found = api.runs(
            f"{project.entity}/{project.name}",
            filters={"group": group} if group else None,
            per_page=_PAGE,
            lazy=False,
        )
        carried = {run.id: _carried(run) for run in found}
    _write_plans(outputs, carried)
    needed = _needed(outputs, experiments)
    if not needed:
        remedy = "where they were trained, run: python -m sweeper dashboard"
        raise wrong(OPTION, path, "a project that holds the plan of its runs", remedy)
    return _restored(RunStore(outputs), carried, needed)


def _carried(run: Any) -> dict[str, Any]:
    """What the mirror put there: in the config when the run began, in the summary at its end."""
    parts = (run.config.get(KEY), run.summary.get(KEY))
    return {
        name: text
        for part in parts
        if hasattr(part, "items")  # the library's own kind of mapping for a summary
        for name, text in part.items()
    }


def _write_plans(outputs: Path, carried: Mapping[str, Mapping[str, Any]]) -> None:
    """Writes each plan there that has an experiment which no plan here has."""
    for id, texts in carried.items():
        if PLAN in texts:
            plan = opened_plan(id, texts)
            known = {name for here in plans(outputs) for name in here["experiments"]}
            if not plan["experiments"].keys() <= known:
                write_plan(outputs, plan)


def _needed(outputs: Path, experiments: Sequence[str] | None) -> set[str]:
    """The runs of the experiments' newest plans, with those they start from."""
    newest = {name: plan for plan in plans(outputs) for name in plan["experiments"]}
    found: set[str] = set()
    for name in experiments or newest:
        plan = newest.get(name, {"points": []})
        for point in plan["points"]:
            run = point["run"] if point["experiment"] == name else None
            while run and run not in found:
                found.add(run)
                run = plan["runs"].get(run, {}).get("parent")
    return found


def _restored(
    store: RunStore, carried: Mapping[str, Mapping[str, Any]], needed: Iterable[str]
) -> Fetched:
    fetched = Fetched()
    for id in sorted(needed):
        if RECORD not in carried.get(id, {}):
            continue
        try:
            done = restore(store, id, carried[id])
        except UserError as error:
            fetched.refused.append(str(error))
        else:
            (fetched.done if done else fetched.unfinished).append(id)
    return fetched
