"""Collect the records of an experiment's runs into one table in memory.

`collect` reads each file of outputs/plans and outputs/runs once, and returns a `Table` for each
experiment. results/table.py has the schema of the columns. Verdicts and figures are made from the
tables in memory, not from the files that `write_tables` writes. This file is stop 8 of the road
through the code in CONTRIBUTING.md. Read results/judge.py next.

The newest plan with the experiment determines the rows: one for each (arm, point, seed), even if
its run is not done. A run that several arms use has a row for each arm. Sizes come from the plan,
so unfinished runs have them, too. The measurements of unfinished runs are empty.

A row in memory also has keys that are not columns (`_IN_MEMORY`):

- `estimate`: the training time that the plan expected, in seconds.
- `devices`: the number of devices.
- `damaged`: whether a file of the run cannot be read.

`collect` writes nothing. If the records on disk are equal, the .csv files are equal to the byte.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from sweeper.results.mixed_code import mixed_code
from sweeper.results.paper_tables import has_paper_table, write_paper_table
from sweeper.results.table import (
    NAMES,
    RUN,
    SIZES,
    STEADY,
    THEN,
    Data,
    RunFiles,
    Table,
    training_flops,
    write_table,
)
from sweeper.store.asked import (
    Asked,
    asked_in,
    asked_of,
    late_terms,
    shared_claims,
)
from sweeper.store.changes import TrainedCode
from sweeper.store.errors import (
    Faults,
    UserError,
    collect_errors,
)
from sweeper.store.files import canonical
from sweeper.store.identity import PLAIN, leaves
from sweeper.store.plans import planned
from sweeper.store.records import Result
from sweeper.store.runs import Run, RunStore, State, lineage

RESULT_KEYS = (
    "steps",
    "tokens_seen",
    "seconds",
    "waited_seconds",
    "tokens_per_second",
    "device",
)
# A table lacks these columns if none of its runs has a value for them.
OPTIONAL = ("parent", "trials", "waited_seconds")
_IN_MEMORY = ("estimate", "devices", "damaged")

Plan = Data
"""A plan as plain data (store/plans.py)."""


def collect(
    outputs: Path,
    experiments: Sequence[str] | None = None,
    faults: Faults | None = None,
) -> list[Table]:
    """Return a table for each of these experiments.

    A table joins the newest plan of its experiment with the records of its runs.

    Args:
        outputs: the outputs folder.
        experiments: names of experiments. None stands for all that were ever planned.
        faults: a list to which the errors of tables and of damaged runs are appended. If it is
            None, the first error of a table is raised, and the error of a damaged run is only in
            the column `reason`.

    Raises:
        UserError: an experiment was never planned, or a plan cannot be read.
    """
    records, tables = Records(RunStore(outputs)), []
    for name, plan in planned(outputs, experiments).items():
        with collect_errors(faults, name):
            tables.append(records.table(name, plan))

    if faults is not None:
        rows = [row for table in tables for row in table.rows if row.get("damaged")]
        damaged = {f"run {row['run']}: {row['reason']}" for row in rows}
        faults += map(UserError, sorted(damaged))
    return tables


def write_tables(
    into: Path, tables: Iterable[Table], faults: Faults | None = None
) -> list[Table]:
    """Write tables as files, and return those that could be written.

    If a table cannot be written, append the error to `faults`, or raise it if `faults` is None.
    """
    written = []
    for table in tables:
        with collect_errors(faults, table.name):
            write_table(into, table)
            if has_paper_table(table):
                write_paper_table(into, table)
            written.append(table)
    return written


class Records:
    """A cache of the records of runs, which several tables share.

    Args:
        store: the store of the runs.
        configs: the configs of runs that have no record yet, by run id.
    """

    def __init__(
        self, store: RunStore, configs: Mapping[str, Data] | None = None
    ) -> None:
        self._store = store
        self._configs = configs or {}
        self._known: dict[str, RunFiles] = {}
        self._code = TrainedCode(store.outputs)

    def of(self, id: str) -> RunFiles:
        """Return the content of a run's files. They are read at the first call."""
        if id not in self._known:
            run = self._store.run(id)
            self._known[id] = collected(run, self._configs.get(id, {}))
        return self._known[id]

    def is_done(self, id: str) -> bool:
        """Return whether a run is done."""
        return bool(self.of(id).cells["state"] == State.DONE)

    def tables(self, plan: Plan) -> list[Table]:
        """Return the tables of a plan. Runs that were not done at the last call are read again."""
        self._known = {id: own for id, own in self._known.items() if self.is_done(id)}
        return [self.table(name, plan) for name in plan["experiments"]]

    def table(self, name: str, plan: Plan) -> Table:
        """Return the table of one experiment in a plan."""
        table = _table(name, plan, self.of)
        about = {**table.provenance, **self._asked(name, plan)}
        if _shared_gpus(table.files.values()):
            about["shared_gpus"] = True
        return replace(table, provenance=about, code=mixed_code(table, self._code))

    def _asked(self, name: str, plan: Plan) -> dict[str, Any]:
        """Search all plans on disk for facts that change the verdicts of an experiment.

        The facts become part of the table's provenance.

        Returns:
            A dict with these keys. A key is missing if its value would be empty.

            - `asked_late`: {term: ids of the runs that were done before the term was chosen}. A
              term is a claim, a margin or an error rate.
            - `asked_too`: the claims that other plans judge on the same runs. These claims share
              the probability of a wrong verdict with the claims of this plan (results/judge.py).
            - `left_out`: the ids of done runs that differ from the runs of this plan only in their
              seed, and belong to other plans with the same claims.
        """
        known = asked_in(self._store.outputs)
        own = asked_of(plan, name)
        late = late_terms(own, known, self.is_done)
        found = {
            "asked_late": late,
            "asked_too": shared_claims(own, known),
            "left_out": self._left_out(own, known),
        }
        return {key: value for key, value in found.items() if value}

    def _left_out(self, own: Asked, known: Sequence[Asked]) -> list[str]:
        """Return the ids of done runs that differ from runs of `own` only in their seed.

        These runs belong to other plans, which have a claim in common with `own`.
        """
        others = {run for one in known if one.claims & own.claims for run in one.runs}
        done = [run for run in sorted(others - own.runs) if self.is_done(run)]
        settings = [self.of(run).settings for run in own.runs] if done else []
        return [run for run in done if self.of(run).settings in settings]


def _shared_gpus(files: Iterable[RunFiles]) -> bool:
    """Return whether two of these runs trained at the same time on the same GPU.

    A GPU is identified by its host, its number and its UUID. The number is not enough, because each
    job of a cluster may call its GPU "0". Old records lack the UUID.
    """
    spans = sorted(
        (
            attempt["host"],
            f"{attempt['visible_gpus']} {attempt.get('hardware', {}).get('uuid')}",
            begun := datetime.fromisoformat(attempt["started"]),
            begun + timedelta(seconds=own.result.seconds or 0),
        )
        for own in files
        for attempt in own.attempts[-1:]
        if own.result and attempt.get("visible_gpus")
    )
    return any(
        one[:2] == following[:2] and following[2] < one[3]
        for one, following in pairwise(spans)
    )


def before_training(plan: Plan, configs: Mapping[str, Data]) -> list[Table]:
    """Return the tables of a plan as if none of its runs had started.

    Args:
        plan: the plan.
        configs: the config of each run of the plan, by run id.
    """

    def of(id: str) -> RunFiles:
        cells = {"run": id, "state": str(State.NEW)}
        return _unstarted(cells, configs.get(id, {}))

    return [_table(name, plan, of) for name in plan["experiments"]]


def collected(run: Run, config: Data) -> RunFiles:
    """Return the content of a run's files, and the cells that follow from it.

    If the run has no record yet, use `config` instead. If a file cannot be read, the cells say that
    the run failed, with the error as the reason.
    """
    status = run.status()
    cells: dict[str, Any] = {"run": run.id}
    cells |= {"state": str(status.state), "reason": status.reason}
    if status.state is State.NEW and not (run.path / "run.json").is_file():
        return _unstarted(cells, config)

    files = RunFiles()
    try:
        record = run.record()
        keys = leaves(record.config)
        cells |= _planned(keys)
        files = RunFiles(keys, record.size, record.names, sections=record.config)
        result = status.result or run.result()
        if result is not None:
            attempts = lineage(run, result.attempt)
            files = replace(files, result=result, attempts=attempts)
            cells |= _measured(result, attempts)
        if keys.get("optimizer.schedule") in STEADY:
            loss = "validation/loss"
            rows = [row for row in run.history() if loss in row]
            curve = [(row["step"], row[loss]) for row in rows]
            files = replace(files, curve=curve)
    except UserError as problem:
        failed = {"state": str(State.FAILED), "reason": str(problem)}
        cells |= failed | {"damaged": True}
    return replace(files, cells=cells)


def _unstarted(cells: Data, config: Data) -> RunFiles:
    """Return a `RunFiles` for a run that has no files.

    Its cells are `cells`, and those that `_planned` derives from the config.

    Args:
        cells: the known cells, such as the state.
        config: the nested config of the run.
    """
    keys = leaves(config)
    return RunFiles(keys, sections=config, cells={**cells, **_planned(keys)})


def _planned(config: Data) -> dict[str, Any]:
    """Return cells from a config with dotted keys: the number of devices and the model's keys."""
    devices = config.get("trainer.devices", 1) * config.get("trainer.num_nodes", 1)
    of_model = {key: v for key, v in config.items() if key.startswith("model.")}
    return {"devices": devices, **of_model}


def _measured(result: Result, attempts: Sequence[Data]) -> dict[str, Any]:
    """Return the cells for the metrics, times, devices and versions of a finished run.

    `attempts` has the content of attempt.json of each attempt that led to the result.
    """
    hardware = [one.get("hardware", {}) for one in attempts[:-1]]
    devices = [str(one.get("gpu") or one.get("cpu") or "") for one in hardware]
    trained_with: dict[str, list[Any]] = {
        "device": [
            *(one for one in devices if not result.device.endswith(one)),
            result.device,
        ],
        "code": [one.get("code") for one in attempts],
        "torch": [one.get("versions", {}).get("torch") for one in attempts],
    }
    joined = {
        column: THEN.join(dict.fromkeys(filter(None, words)))
        for column, words in trained_with.items()
    }
    return {
        **{key: getattr(result, key) for key in RESULT_KEYS},
        **joined,
        **result.validation,
        **result.metrics,
    }


def _table(name: str, plan: Plan, of: Callable[[str], RunFiles]) -> Table:
    """Return the table of an experiment. `of` maps a run id to the content of the run's files."""
    about = plan["experiments"][name]
    points = [point for point in plan["points"] if point["experiment"] == name]
    swept = {key for point in points for key in point["values"]}
    # The rows of all arms show these keys, even if only one of the arms varies them.
    shown = {*swept, str(about.get("x"))}
    ends = Counter(key.rpartition(".")[2] for key in swept)
    tasks = {point["run"]: point.get("task") for point in plan["points"]}

    rows, files, settings = [], {}, {}
    for point in points:
        run = of(point["run"])
        config = run.config
        files[point["run"]] = run
        words = _words(point["values"], ends)
        settings[words] = point["values"]

        chosen, beside = point.get("chosen") or {}, point.get("alternative_to")
        row = {
            **dict.fromkeys((*RESULT_KEYS, *RUN)),
            "task": point.get("task"),
            **point["values"],
            **chosen.get("values", {}),
            # The values of a fine-tuned point are those of its pre-training. Let the config replace
            # them, so that the cells show what the fine-tuning run itself used.
            **{key: config[key] for key in shown if key in config},
            **run.cells,
            **_sizes(point, plan, tasks, of),
            "experiment": name,
            "arm": point["arm"],
            "point": words,
            "seed": point["seed"],
            "trials": " ".join(chosen.get("trials", ())),
            "parent": plan["runs"][point["run"]]["parent"],
            "estimate": plan.get("estimate", {}).get(point["run"]),
        }
        row["training_flops"] = training_flops(row)
        if beside is not None:
            row["alternative_to"] = f"{point['arm']} {_words(beside, ends)}".strip()
        rows.append({key: None if v == "" else plain(v) for key, v in row.items()})

    provenance = {key: plan.get(key) for key in ("number", "command", "scale")}
    provenance |= {
        key: plan[key] for key in ("accept_mixed_code", "rounds") if key in plan
    }
    return Table(name, about, provenance, settings, _columns(rows, swept), rows, files)


def _words(values: Data, ends: Counter[str]) -> str:
    """Return a point in words, such as "heads=8 head_size=32".

    The key `model.heads` is shortened to `heads` if no other varied key ends in "heads".

    Args:
        values: the values of the point, by key.
        ends: the number of varied keys by their last word. For example, {"heads": 1} if
            `model.heads` is the only varied key that ends in "heads".
    """
    words = []
    for key, value in values.items():
        end = key.rpartition(".")[2]
        name = end if ends[end] == 1 else key
        words.append(f"{name}={'null' if value is None else plain(value)}")
    return " ".join(words)


def _sizes(
    point: Data,
    plan: Plan,
    tasks: Mapping[str, str | None],
    of: Callable[[str], RunFiles],
) -> dict[str, Any]:
    """Return the cells on the size of a point's model, and on the point that it is matched to.

    A fine-tuned model gets the parameter counts of its pre-trained model, including the output
    layers of pre-training. If a run starts from another run of the same task,
    `params_attention_saved` is the share of attention parameters that re-parametrisation saves.

    Args:
        point: the point in the plan.
        plan: the plan.
        tasks: the task of every run in the plan, by run id.
        of: a function from a run id to the content of the run's files.
    """
    runs, run = plan["runs"], point["run"]
    size, parent = dict(runs[run]["size"]), runs[run]["parent"]
    if parent in runs:
        before, task = runs[parent]["size"], tasks.get(parent)
    elif parent:
        # The parent is not in the plan: it is a run of an earlier sweep, or a published model.
        outside = of(parent)
        before, task = outside.size, outside.config.get("task.name")
    else:
        before, task = {}, tasks[run]

    if task != tasks[run]:
        size |= {key: own for key, own in before.items() if key.startswith("params_")}
    elif before.get("params_attention"):
        share = size["params_attention"] / before["params_attention"]
        # A parent outside the plan may have the same attention. Then nothing was re-parametrised,
        # so leave the cell empty.
        if share != 1 or parent in runs:
            size["params_attention_saved"] = 1 - share

    found = {key: own for key, own in size.items() if key in SIZES}
    if "head_size" in size:
        found["model.head_size"] = size["head_size"]
    matched = point.get("matched") or {}
    keys = {"matched_to": "to", "match_count": "count", "match_error": "error"}
    return found | {column: matched.get(key) for column, key in keys.items()}


def _columns(rows: Sequence[Data], swept: set[str]) -> list[str]:
    """Return the columns of these rows, in the order of the schema."""
    unused = {key for key in OPTIONAL if not any(row.get(key) for row in rows)}
    found = {key for row in rows for key in row} - unused
    rest = sorted(found - {*NAMES, *SIZES, *RUN, *_IN_MEMORY})
    metrics = [key for key in rest if "/" in key and key not in swept]
    keys = [key for key in rest if key not in metrics]
    # Put the keys of the model first.
    keys.sort(key=lambda key: not key.startswith("model."))
    order = [*NAMES, *keys, *SIZES, *metrics, *RUN]
    return [key for key in order if key in found]


def plain(value: Any) -> Any:
    """Return a value as a cell: None, a boolean, a number, or a string."""
    # Look up the exact type first, because isinstance with a union is slow, and there can be
    # millions of cells.
    if type(value) in PLAIN or isinstance(value, str | int | float):
        return value
    return canonical(value)
