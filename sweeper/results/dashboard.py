"""The one door to Weights & Biases: which project, with which key, and its errors as sentences."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeper.results.claims.evidence.verdict import Verdict
from sweeper.results.draw import write_figures
from sweeper.results.judge import Verdicts
from sweeper.results.points import measures
from sweeper.results.table import Table, files_made_of, label, stem
from sweeper.store.errors import UserError, invalid_value, sanitize
from sweeper.store.files import present
from sweeper.store.identity import digest_of
from sweeper.store.runs import RunStore

_LETTERS = 200  # of what W&B says of an error


@dataclass(frozen=True)
class Project:
    """A project there. Without an entity it is the default one of whoever owns the key."""

    entity: str | None
    name: str

    @classmethod
    def parse(cls, text: str, option: str) -> Project:
        """The project of `ENTITY/PROJECT`."""
        entity, _, name = text.partition("/")
        if not entity or not name or "/" in name:
            remedy = f"give it as {option} me/headroom"
            raise invalid_value(
                option, text, "ENTITY/PROJECT, as in the address of its page", remedy
            )
        return cls(entity, name)


def project_of(records: Iterator[Mapping[str, Any]]) -> Project:
    """The project that runs are mirrored to.

    Raises:
        UserError: they are not mirrored, or not all to the same.
    """
    found = set()
    for record in records:
        logger = record["config"].get("logger") or {}
        if logger.get("name") == "wandb":
            found.add(Project(logger.get("entity"), logger["project"]))
    if len(found) != 1:
        names = ", ".join(sorted(f"{one.entity}/{one.name}" for one in found)) or "none"
        expected = "runs that are mirrored to one project (logger=wandb)"
        raise invalid_value(
            "logger.project", names, expected, "name one with --project ENTITY/PROJECT"
        )
    return found.pop()


def module(name: str, remedy: str) -> Any:
    """A library of W&B, imported when it is needed; UserError where it is not installed."""
    try:
        return importlib.import_module(name)
    except ImportError:
        package = name.partition(".")[0].replace("_", "-")
        raise UserError(f"The package {package} is not installed; {remedy}.") from None


@contextmanager
def sentences() -> Iterator[None]:
    """Whatever W&B raises in here is one UserError: its libraries raise almost anything."""
    try:
        yield
    except (UserError, KeyboardInterrupt):
        raise
    except Exception as error:
        raise UserError(f"Weights & Biases refused: {_said(error)}.") from error


def connected() -> Any:
    """The public interface, with whoever's key there is; UserError without one.

    A key that is refused is told by the first question.
    """
    wandb = module("wandb", "install it: pip install wandb")
    from wandb.errors import AuthenticationError, UsageError

    wandb.setup(wandb.Settings(silent=True))
    try:
        with sentences():
            return wandb.Api()
    except UserError as error:
        if isinstance(error.__cause__, AuthenticationError | UsageError):
            remedy = "set WANDB_API_KEY or run `wandb login`, where its server can be reached"
            said = _said(error.__cause__)
            raise UserError(f"Weights & Biases lets nobody in: {said}; {remedy}.") from None
        raise


def _said(error: BaseException) -> str:
    words = " ".join(str(error).split()).rstrip(".") or type(error).__name__
    return sanitize(words, _LETTERS)


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
