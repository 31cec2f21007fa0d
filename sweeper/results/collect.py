"""Stop 8 of the road: what the runs of an experiment left on disk becomes one table in memory.

In: outputs/plans and outputs/runs, each read once a command. Out: a `Table` for each experiment.
Next: results/judge.py and results/figures, which are handed these tables; nothing here reads
the files that `write_tables` exports.

A row is one (arm, point, seed) of the newest plan that has the experiment, whether its run is done
or not; a run that several arms use has a row in each. Columns, in this order:

    experiment, arm, point       names; the point in words, for example "heads=8 head_size=32"
    task                         what the run learns, where the plan or its record says so
    seed                         of initial weights, data order and dropout
    model.*                      the model as it was built, under its config keys; model.head_size
                                 is the size even where the config leaves it to the other keys, and
                                 the list of sizes where heads differ
    other config keys            that the plan varies, for example task.sequence_length, and those
                                 that were chosen for the point
    trials                       the runs that chose them, by the validation split alone; they are
                                 rows of <experiment>_trials, and of no other table
    params_total, params_embedding, params_non_embedding, params_attention
                                 numbers of trainable parameters; of a fine-tuned model those of
                                 its pre-training, heads included, which are what papers print
    params_attention_saved       of a model that starts from another on the same task, the share of
                                 that one's attention parameters that it does without
    flops_per_token              training FLOPs per position, 3 x those of the forward pass
    width                        heads x head_size: keys one layer has per position (the mean over
                                 layers where heads differ); values too, unless they have a size of
                                 their own
    matched_to                   what the point was given the size of, in words; empty if of nothing
    match_count                  the column in which it was matched
    match_error                  achieved / target - 1 in that column
    steps, tokens_seen           optimizer steps, and positions trained on
    <split>/<metric>             what was measured of the test split, and of validation where a run
                                 looks at that; losses are in nats per subword, attention_rank and
                                 attention_entropy (nats) are means over heads
    seconds, tokens_per_second   wall time of training
    device                       the machine in words
    code, torch                  the versions of the program and of PyTorch that trained the run,
                                 where it says so; as the device "<one> then <other>" of a run that
                                 was continued with another
    state, reason                new, running, interrupted, failed or done, and why
    run                          the id of the run: outputs/runs/<run>

Besides, a row in memory has `parent`, the run whose weights it starts from, `estimate`, the
seconds that it was thought to train when it was planned, `code_parts`, a list of the states of the
code that trained it, by parts (store/code/state.py), and, of one whose files cannot be read,
`damaged`; they are no columns.

Sizes are those of the plan, so rows of unfinished runs have them too; what only a finished run can
tell is empty there. Collecting reads only, and equal records give equal bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from sweeper.results.paper_tables import has_paper_table, write_paper_table
from sweeper.results.table import Table, planned_cells, run_cells, write_table
from sweeper.store.errors import Faults, UserError, collect_errors
from sweeper.store.files import canonical
from sweeper.store.plans import planned
from sweeper.store.runs import RunStore, State

_SIZES = (
    "params_total",
    "params_embedding",
    "params_non_embedding",
    "params_attention",
    "params_attention_saved",
    "flops_per_token",
    "width",
)
_COLUMNS_BEFORE = ("experiment", "arm", "point", "task", "seed")
_COLUMNS_MATCH = ("matched_to", "match_count", "match_error", "steps", "tokens_seen")
_IN_MEMORY = ("parent", "estimate", "code_parts", "damaged")
_COLUMNS_AFTER = (
    *("seconds", "tokens_per_second", "device", "code", "torch"),
    *("state", "reason", "run"),
)


def collect(
    outputs: Path, experiments: Sequence[str] | None = None, faults: Faults | None = None
) -> list[Table]:
    """The tables of the experiments (all that were ever planned if none is named).

    They are made of the newest plan of each and of the records on disk; why one cannot be made, or
    a run of one be read, is added to `faults` where these are given.

    Raises:
        UserError: an experiment was never planned, or a plan cannot be read.
    """
    store, tables = RunStore(outputs), []
    cells = cache(lambda id: run_cells(store.run(id)))
    for name, plan in planned(outputs, experiments).items():
        with collect_errors(faults, name):
            tables.append(_table(name, plan, cells))
    rows = (row for table in tables for row in table.rows if row.get("damaged"))
    damaged = {row["run"]: UserError(f"run {row['run']}: {row['reason']}") for row in rows}
    if faults is not None:
        faults.extend(damaged.values())
    return tables


def write_tables(into: Path, tables: Iterable[Table], faults: Faults | None = None) -> list[Table]:
    """Write tables as files for other programs and for people; those that could be written.

    Where there are no `faults` to say why one could not, it is raised.
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
    """The records of a store, for several tables: those of a run that is done are read once.

    Of a run that has no record yet its config, if it is given, says what is planned.
    """

    def __init__(
        self, store: RunStore, configs: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        self._store = store
        self._configs = configs or {}
        self._done: dict[str, dict[str, Any]] = {}

    def tables(self, plan: Mapping[str, Any]) -> list[Table]:
        """The tables of a plan, written or not, as its runs stand now."""
        known = dict(self._done)

        def cells(id: str) -> dict[str, Any]:
            if id not in known:
                known[id] = run_cells(self._store.run(id), self._configs.get(id))
            return known[id]

        tables = [_table(name, plan, cells) for name in plan["experiments"]]
        self._done = {id: own for id, own in known.items() if own["state"] == State.DONE}
        return tables


def before_training(
    plan: Mapping[str, Any], configs: Mapping[str, Mapping[str, Any]]
) -> list[Table]:
    """The tables of a plan when nothing is trained; `configs` are those of its runs, by id."""

    def cells(id: str) -> dict[str, Any]:
        return {"run": id, "state": str(State.NEW), **planned_cells(configs[id])}

    return [_table(name, plan, cells) for name in plan["experiments"]]


def _table(name: str, plan: Mapping[str, Any], cells: Callable[[str], dict[str, Any]]) -> Table:
    points = [point for point in plan["points"] if point["experiment"] == name]
    swept = {key for point in points for key in point["values"]}
    tasks = {point["run"]: point.get("task") for point in plan["points"]}
    words = partial(_in_words, keys=swept)
    rows = []
    for point in points:
        matched, chosen = point.get("matched") or {}, point.get("chosen") or {}
        row = {
            "task": point.get("task"),
            **{key: value for key, value in point["values"].items() if key != "seed"},
            **cells(point["run"]),
            **chosen.get("values", {}),
            "trials": " ".join(chosen.get("trials", ())),
            **_size(point["run"], plan["runs"], tasks),
            "matched_to": str(matched.get("to", "")),
            "match_count": matched.get("count"),
            "match_error": matched.get("error"),
            "parent": plan["runs"].get(point["run"], {}).get("parent"),
            "estimate": plan.get("estimate", {}).get(point["run"]),
            "experiment": name,
            "arm": point["arm"],
            "point": words(point["values"]),
            "seed": point["seed"],
        }
        # A cell is None, a truth value, a number, or words that are not empty.
        rows.append({key: None if cell == "" else plain(cell) for key, cell in row.items()})
    provenance = {key: plan.get(key) for key in ("number", "command", "scale")}
    if "rounds" in plan:
        provenance["rounds"] = [{**r, "verdicts": r["verdicts"][name]} for r in plan["rounds"]]
    settings = {words(point["values"]): point["values"] for point in points}
    columns = _columns(rows, swept)
    return Table(name, plan["experiments"][name], provenance, settings, columns, rows)


def _size(id: str, runs: Mapping[str, Any], tasks: Mapping[str, Any]) -> dict[str, Any]:
    planned = runs.get(id, {})
    size, parent = dict(planned.get("size", {})), planned.get("parent")
    before = runs.get(parent, {}).get("size", {})
    if tasks.get(parent) != tasks.get(id):  # fine-tuned
        size |= {key: before[key] for key in before if key.startswith("params_")}
    elif before.get("params_attention"):
        share = size["params_attention"] / before["params_attention"]
        size["params_attention_saved"] = 1 - share
    cells = {key: size[key] for key in _SIZES if key in size}
    if "head_size" in size:
        cells["model.head_size"] = size["head_size"]
    return cells


def _columns(rows: Sequence[Mapping[str, Any]], swept: Collection[str]) -> list[str]:
    found = dict.fromkeys(key for row in rows for key in row)
    named = {*_COLUMNS_BEFORE, *_SIZES, *_COLUMNS_MATCH, *_COLUMNS_AFTER}
    kept = () if any(row["trials"] for row in rows) else ("trials",)
    free = sorted(key for key in found if key not in {*named, *_IN_MEMORY, *kept})
    model = [key for key in free if key.startswith("model.")]
    metrics = [key for key in free if "/" in key and key not in swept]
    other = [key for key in free if key not in model and key not in metrics]
    sizes = [key for key in _SIZES if key in found]
    return [*_COLUMNS_BEFORE, *model, *other, *sizes, *_COLUMNS_MATCH, *metrics, *_COLUMNS_AFTER]


def _in_words(values: Mapping[str, Any], keys: Collection[str]) -> str:
    """The values of a point, under the last parts of their keys where no two keys share one."""
    ends = [key.rpartition(".")[2] for key in keys]
    named = {key: end if ends.count(end) == 1 else key for key, end in zip(keys, ends, strict=True)}
    return " ".join(f"{named[key]}={_word(value)}" for key, value in values.items())


def plain(value: Any) -> Any:
    """A value as a cell: None, a truth value, a number, or words."""
    return value if value is None or isinstance(value, str | int | float) else canonical(value)


def _word(value: Any) -> str:
    return "null" if value is None else str(plain(value))
