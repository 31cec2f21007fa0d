"""The saved view of a project: what its panels show, built from the tables it is for.

Panels read what the mirror sends (tasks/training/wandb_mirror.py): rows under
trainer/global_step, the config with `size` and `names` beside the run's own keys, and what was
measured last as the summary.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from sweeper.results.points import measures
from sweeper.results.table import Table, label
from sweeper.results.wandb.service import Project, module
from sweeper.store.identity import digest_of

EXTRA = 'install it, pip install "wandb-workspaces>=0.4.13", or leave the view out with --offline'
JOB_TYPE = "experiment"  # of runs that hold a table and trained nothing
STEP = "trainer/global_step"
ARM = "names.arm"
# What a metric is drawn against, as the mirror's config has it. `size` has the head size that was
# built, also where the config leaves it to the embedding size.
ACROSS = {
    "heads": "model.heads",
    "head size": "size.head_size",
    "total parameters": "size.params_total",
}
MOST_RUNS = 1000  # lines in a panel; the library's default is 10


def saved(project: Project, tables: Sequence[Table]) -> str:
    """Saves the view of the tables, over the one of the same tables if there is one; its address.

    Args:
        project: with its entity.
    """
    workspaces = module("wandb_workspaces.workspaces", EXTRA)
    internal = module("wandb_workspaces.workspaces.internal", EXTRA)
    view = workspace(project, tables)
    # Views are found by a name of eleven letters that the client chooses: the same for the same.
    name = digest_of([project.entity, project.name, view.name])[:11]
    view._internal_name = internal._url_query_str_to_internal_name(name)
    with suppress(ValueError):  # there is none yet
        view._internal_id = workspaces.Workspace.from_url(view.url)._internal_id
    view.save()
    return str(view.url)


def workspace(project: Project, tables: Sequence[Table]) -> Any:
    """The view, as an object of wandb-workspaces; nothing is asked of any server."""
    ws = module("wandb_workspaces.workspaces", EXTRA)
    plots = module("wandb_workspaces.reports.v2", EXTRA)
    sections = {
        "Loss by arm": [
            _by_arm(plots, "Training loss by arm", "train/loss", log_y=True),
            _by_arm(plots, "Validation loss by arm", "validation/loss", log_y=True),
        ],
        **{
            f"{table.name}: what was measured": [
                _against(plots, across, measure.metric, measure.words)
                for measure in measures(table)
                for across in ACROSS
            ]
            for table in tables
        },
        "Throughput": [
            _by_arm(plots, "Tokens per second", "tokens_per_second"),
            _against(
                plots, "total parameters", "tokens_per_second", "Tokens per second at the end"
            ),
        ],
        "Rank and entropy of attention": [
            _against(plots, "head size", metric, label(metric)) for metric in _attention(tables)
        ],
    }
    return ws.Workspace(
        entity=project.entity or "",
        project=project.name,
        name=f"Headroom: {', '.join(table.name for table in tables)}",
        sections=[
            ws.Section(name=name, panels=panels, is_open=True)
            for name, panels in sections.items()
            if panels
        ],
        settings=ws.WorkspaceSettings(x_axis=STEP, max_runs=MOST_RUNS),
        # Not grouped: a scatter plot would show one point for each group.
        runset_settings=ws.RunsetSettings(filters=ws.And(ws.Metric("JobType") != JOB_TYPE)),
    )


def _attention(tables: Sequence[Table]) -> list[str]:
    """Every rank or entropy that any run has measured."""
    columns = dict.fromkeys(column for table in tables for column in table.columns)
    asked = {"rank", "entropy"}
    return [c for c in columns if "/" in c and asked & set(c.rpartition("/")[2].split("_"))]


def _by_arm(plots: Any, title: str, metric: str, *, log_y: bool = False) -> Any:
    """A curve for each arm: the mean of its runs, and their standard deviation."""
    return plots.LinePlot(
        title=title,
        x=STEP,
        y=[metric],
        log_y=log_y,
        groupby=plots.Config(ARM),
        groupby_aggfunc="mean",
        groupby_rangefunc="stddev",
        max_runs_to_show=MOST_RUNS,
    )


def _against(plots: Any, across: str, metric: str, words: str) -> Any:
    """A point for each run."""
    return plots.ScatterPlot(
        title=f"{words} against {across}",
        x=plots.Config(ACROSS[across]),
        y=plots.SummaryMetric(metric),
        log_x=True,
    )
