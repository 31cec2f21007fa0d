"""Publish tables, figures and verdicts on Weights & Biases (W&B), and save a view of the runs."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from sweeper.results.figures import write_figures
from sweeper.results.judge import Verdicts
from sweeper.results.points import measures
from sweeper.results.table import Table, files_made_of, label
from sweeper.results.verdict import Verdict
from sweeper.store import mirrors
from sweeper.store.errors import UserError, invalid_value, sanitize
from sweeper.store.identity import digest_of
from sweeper.store.plans import stem

LOGIN = "set WANDB_API_KEY, or run `wandb login` on a machine with internet access"
# The advice after an error of W&B, by the name of the exception.
REMEDIES = {
    "AuthenticationError": LOGIN,
    "UsageError": LOGIN,
}
JOB_TYPE = "experiment"  # the job type of W&B runs that hold a table
STEP = "trainer/global_step"
ARM = "names.arm"
# The x-axes of scatter plots: the label of each, and the key of a run's config in W&B. The head
# size comes from the section `size`, because model.head_size may be null.
ACROSS = {
    "heads": "model.heads",
    "head size": "size.head_size",
    "total parameters": "size.params_total",
}
# A panel shows at most this many runs. The default of wandb-workspaces is 10.
MOST_RUNS = 1000
_LETTERS = 200  # longer error messages of W&B are cut


class Project(NamedTuple):
    """A W&B project. `entity=None` stands for the default entity of the API key."""

    entity: str | None
    name: str


def project_of(tables: Sequence[Table], given: str | None) -> Project:
    """Return the given project. If it is None, return the project that the runs are mirrored to.

    Args:
        tables: the tables to publish.
        given: ENTITY/PROJECT, or None.

    Raises:
        UserError: `given` is malformed, or the runs are not all mirrored to one project.
    """
    if given:
        entity, _, name = given.partition("/")
        if not entity or not name or "/" in name:
            expected = "ENTITY/PROJECT, as in the address of its page"
            remedy = "write for example --project me/headroom"
            raise invalid_value("--project", given, expected, remedy)
        return Project(entity, name)

    configs = [files.config for table in tables for files in table.files.values()]
    found = {
        Project(config.get("logger.entity"), config["logger.project"])
        for config in configs
        if config.get("logger.name") == "wandb"
    }
    if len(found) != 1:
        names = ", ".join(sorted(f"{one.entity}/{one.name}" for one in found)) or "none"
        expected = "one project that all runs are mirrored to (logger=wandb)"
        remedy = "choose a project with --project ENTITY/PROJECT"
        raise invalid_value("logger.project", names, expected, remedy)
    return found.pop()


@contextmanager
def as_user_error() -> Iterator[None]:
    """Convert every exception to UserError, because the libraries of W&B can raise any type."""
    try:
        yield
    except (UserError, KeyboardInterrupt):
        raise
    except ImportError as error:
        package = (error.name or "wandb").partition(".")[0].replace("_", "-")
        remedy = f"run pip install {package}"
        if package == "wandb-workspaces":
            remedy = 'run pip install "wandb-workspaces>=0.4.13", or omit the view with --offline'
        raise UserError(f"{package} cannot be imported; {remedy}.") from error
    except Exception as error:
        kind = type(error).__name__
        words = " ".join(str(error).split()).rstrip(".") or kind
        problem = f"Weights & Biases failed: {sanitize(words, _LETTERS)}"
        remedy = f"; {REMEDIES[kind]}" if kind in REMEDIES else ""
        raise UserError(f"{problem}{remedy}.") from error


def workspace(project: Project, tables: Sequence[Table]) -> Any:
    """Return a wandb-workspaces view of the runs, to be saved. This needs no connection."""
    ws = import_module("wandb_workspaces.workspaces")
    plots = import_module("wandb_workspaces.reports.v2")

    def by_arm(title: str, metric: str, *, log_y: bool = False) -> Any:
        """Return a plot of the mean and the standard deviation over the runs of each arm."""
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

    def against(across: str, metric: str, words: str) -> Any:
        """Return a scatter plot with a point for each run."""
        return plots.ScatterPlot(
            title=f"{words} against {across}",
            x=plots.Config(ACROSS[across]),
            y=plots.SummaryMetric(metric),
            log_x=True,
        )

    sections = {
        "Loss by arm": [
            by_arm("Training loss by arm", "train/loss", log_y=True),
            by_arm("Validation loss by arm", "validation/loss", log_y=True),
        ]
    }
    for table in tables:
        sections[f"{table.name}: metrics"] = [
            # W&B draws accuracies as fractions, so remove the unit "%" from the label.
            against(across, measure.metric, measure.words.removesuffix(" (%)"))
            for measure in measures(table)
            for across in ACROSS
        ]
    speed, words = "tokens_per_second", "Tokens per second"
    sections["Throughput"] = [
        by_arm(words, speed),
        against("total parameters", speed, f"{words} at the end"),
    ]
    columns = dict.fromkeys(column for table in tables for column in table.columns)
    sections["Rank and entropy of attention"] = [
        against("head size", metric, label(metric))
        for metric in columns
        if metric.endswith(("_rank", "_entropy"))
    ]
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
        # Do not group runs, because a scatter plot would show only one point for each group.
        runset_settings=ws.RunsetSettings(
            filters=ws.And(ws.Metric("JobType") != JOB_TYPE)
        ),
    )


def publish_dashboard(
    outputs: Path,
    tables: Sequence[Table],
    verdicts: Verdicts,
    given: str | None,
    *,
    offline: bool,
) -> str:
    """Publish tables, figures and verdicts, and save a view; return the address of the view.

    Args:
        outputs: the outputs folder.
        tables: the tables to publish.
        verdicts: the verdicts on the tables.
        given: ENTITY/PROJECT. None stands for the project that the runs are mirrored to.
        offline: write the W&B files to outputs/wandb without sending them, save no view, and return
            the `wandb sync` command that uploads them.

    Raises:
        UserError: a figure is unknown, a package or the API key is missing, or W&B refuses a
            request.
    """
    project = project_of(tables, given)
    with as_user_error():
        wandb = import_module("wandb")
        if not offline:
            # Import this now, so that a missing package is reported before anything is sent.
            workspaces = import_module("wandb_workspaces.workspaces")
            wandb.setup(wandb.Settings(silent=True))
            api = wandb.Api()
            project = Project(project.entity or api.default_entity, project.name)
    write_figures(outputs, tables)
    with as_user_error():
        for table in tables:
            publish(outputs, table, verdicts[table.name], project, offline=offline)
        if offline:
            return f"wandb sync {shlex.quote(str(outputs / 'wandb'))}"
        tag(outputs, tables, api.runs, project)
        view = workspace(project, tables)
        # The default name is random, so each call would save another view. Use a fixed name.
        name = digest_of([project.entity, project.name, view.name])[:11]
        internal = workspaces.internal
        view._internal_name = internal._url_query_str_to_internal_name(name)
        # Take the id of an earlier view, so that `save` replaces that view. If there is none,
        # from_url raises ValueError, and `save` adds a view.
        with suppress(ValueError):
            view._internal_id = type(view).from_url(view.url)._internal_id
        view.save()
        return str(view.url)


def tag(
    outputs: Path, tables: Sequence[Table], runs: Callable[..., Any], project: Project
) -> None:
    """Tag every W&B run of the tables with the experiments that use it.

    When training starts, a run gets tags for the plans that exist then. This function adds tags for
    later plans.

    Args:
        outputs: the outputs folder.
        tables: the tables with the runs.
        runs: `wandb.Api.runs`.
        project: the project of the runs.
    """
    ids = dict.fromkeys(str(row["run"]) for table in tables for row in table.rows)
    tags = mirrors.tags(outputs)
    asked = {"name": {"$in": [*ids]}}
    for run in runs(f"{project.entity}/{project.name}", filters=asked, lazy=False):
        if missing := [tag for tag in tags.get(run.id, ()) if tag not in run.tags]:
            run.tags = [*run.tags, *missing]
            run.update()


def publish(
    outputs: Path,
    table: Table,
    verdicts: Sequence[Verdict],
    project: Project,
    *,
    offline: bool,
) -> None:
    """Publish an experiment as a W&B run of the same name, with its files as an artifact.

    A second call adds a new version of the artifact.
    """
    wandb = import_module("wandb")
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
        settings=wandb.Settings(
            console="off", silent=True, disable_git=True, x_disable_stats=True
        ),
    )
    with begun as run:
        for verdict in verdicts:
            run.summary[f"{verdict.claim}, {verdict.measure}"] = str(verdict.verdict)
        cells = wandb.Table(list(table.columns), table.cells, allow_mixed_types=True)
        picture = wandb.Image(str(outputs / "figures" / f"{name}.png"))
        run.log({"table": cells, "figure": picture})
        artifact = wandb.Artifact(name, type=JOB_TYPE)
        for path in files_made_of(outputs, table.name):
            artifact.add_file(str(path), path.relative_to(outputs).as_posix())
        run.log_artifact(artifact)
