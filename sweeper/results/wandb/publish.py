"""An experiment there: its table, figures and verdicts, as a run and an artifact."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sweeper.results.claims.evidence.verdict import Verdict
from sweeper.results.draw import write_figures
from sweeper.results.judge import Verdicts
from sweeper.results.table import Table, files_made_of, stem
from sweeper.results.wandb.service import Project, connected, module, project_of, sentences
from sweeper.results.wandb.workspace import EXTRA, JOB_TYPE, saved
from sweeper.store.files import present
from sweeper.store.runs import RunStore


def publish_dashboard(
    outputs: Path, tables: Sequence[Table], verdicts: Verdicts, given: str | None, *, offline: bool
) -> str:
    """Draws the tables and shows them there with the verdicts on them; where to find them.

    Args:
        given: ENTITY/PROJECT; None for the project that the runs are mirrored to.
        offline: keep tables and figures for `wandb sync`, and save no view.

    Raises:
        UserError: an unknown figure, a missing package or key, or whatever W&B refuses.
    """
    project = Project.parse(given, "--project") if given else _project(outputs, tables)
    if not offline:
        module("wandb_workspaces.workspaces", EXTRA)  # before anything is sent
        api = connected()
        with sentences():
            project = Project(project.entity or api.default_entity, project.name)
    write_figures(outputs, tables)
    with sentences():
        for table in tables:
            publish(outputs, table, verdicts[table.name], project, offline=offline)
        if offline:
            return f"wandb sync {outputs / 'wandb'}"
        return saved(project, tables)


def publish(
    outputs: Path, table: Table, verdicts: Sequence[Verdict], project: Project, *, offline: bool
) -> None:
    """One experiment as a run named after it; published again, it is the next version of it."""
    wandb = module("wandb", "install it: pip install wandb")
    name = stem(table.name)
    begun = wandb.init(
        id=f"{JOB_TYPE}-{name}",
        name=table.name,
        entity=project.entity,
        project=project.name,
        group=table.name,
        job_type=JOB_TYPE,
        dir=str(outputs),
        mode="offline" if offline else "online",
        resume="allow",
        settings=wandb.Settings(console="off", silent=True, disable_git=True, x_disable_stats=True),
    )
    with begun as run:
        for verdict in verdicts:
            run.summary[f"{verdict.claim}, {verdict.measure}"] = str(verdict.verdict)
        run.log(_shown(wandb, outputs, table))
        artifact = wandb.Artifact(name, type=JOB_TYPE)
        for path in files_made_of(outputs, table.name):
            artifact.add_file(str(path), path.relative_to(outputs).as_posix())
        run.log_artifact(artifact)


def _project(outputs: Path, tables: Sequence[Table]) -> Project:
    store = RunStore(outputs)
    ids = dict.fromkeys(str(row["run"]) for table in tables for row in table.rows)
    return project_of(run.record() for run in map(store.run, ids) if present(run.path / "run.json"))


def _shown(wandb: Any, outputs: Path, table: Table) -> dict[str, Any]:
    """What the page of the run shows by itself."""
    cells = [[row.get(column) for column in table.columns] for row in table.rows]
    picture = outputs / "figures" / f"{stem(table.name)}.png"
    return {
        "table": wandb.Table(columns=list(table.columns), data=cells, allow_mixed_types=True),
        "figure": wandb.Image(str(picture)),
    }
