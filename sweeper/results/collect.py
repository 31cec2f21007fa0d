"""Stop 8 of the road: the records of an experiment's runs become one table in memory.

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
    alternative_to               the point with the chosen values, in words, if trials cannot tell
                                 those of this one from them
    params_total, params_embedding, params_non_embedding, params_attention
                                 numbers of trainable parameters; of a fine-tuned model those of
                                 its pre-training, heads included, which are what papers print
    params_attention_saved       of a model that starts from another on the same task, the share of
                                 that one's attention parameters that it does without
    flops_per_token              training FLOPs per position, 3 x those of the forward pass
    cache_bytes_per_token        of a decoder: what decoding keeps of a token in all layers, at two
                                 bytes a number, where the attention says it
    width                        heads x head_size, the mean over layers where heads differ: keys
                                 of a layer at a position, where heads share none
    matched_to                   the point with the same size, in words; empty if none
    match_count                  the column in which it was matched
    match_error                  achieved / target - 1 in that column
    steps, tokens_seen           optimizer steps, and positions trained on; at most, where a batch
                                 is as long as its longest row, as in fine-tuning
    <split>/<metric>             metrics of the test split, and of validation where a run measures
                                 them; losses are in nats per subword, attention_rank and
                                 attention_entropy (nats) are means over heads
    seconds, tokens_per_second   wall time of training
    device                       the machine in words
    code, torch                  the versions of the program and of PyTorch that trained the run,
                                 where it says so; as the device "<one> then <other>" of a run that
                                 was continued with another
    state, reason                new, running, interrupted, failed or done, and why
    run                          the id of the run: outputs/runs/<run>
    parent                       the run whose weights it starts from, where one has such

A row in memory also has keys that are not columns: `parent`, the run whose weights it starts from;
`estimate`, the training seconds that the plan expected; `devices`, how many it trains on;
`code_parts`, a list of the states of the
code that trained it (store/code.py); `prepared`, the text and task of its data, as JSON, with the
digest of the prepared files; `damaged`, if a file of the run cannot be read.

Sizes are those of the plan, so rows of unfinished runs have them too; their measurements are empty.
Collecting writes nothing, and equal records give equal bytes.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from sweeper.results.mixed_code import mixed_code
from sweeper.results.paper_tables import has_paper_table, write_paper_table
from sweeper.results.points import code_apart
from sweeper.results.table import FILES, Table, planned_cells, run_cells, write_table
from sweeper.store.asked import asked_in, asked_of, late_terms, shared_claims
from sweeper.store.changes import TrainedCode
from sweeper.store.errors import Faults, UserError, collect_errors, invalid_value
from sweeper.store.files import canonical
from sweeper.store.identity import PLAIN
from sweeper.store.plans import planned
from sweeper.store.runs import RunStore, State

_SIZES = (
    "params_total",
    "params_embedding",
    "params_non_embedding",
    "params_attention",
    "params_attention_saved",
    "flops_per_token",
    "cache_bytes_per_token",
    "width",
)
_COLUMNS_BEFORE = ("experiment", "arm", "point", "task", "seed")
_COLUMNS_MATCH = ("matched_to", "match_count", "match_error", "steps", "tokens_seen")
_IN_MEMORY = ("parent", "estimate", "devices", "code_parts", "prepared", "damaged")
_COLUMNS_AFTER = (
    *("seconds", "tokens_per_second", "device", "code", "torch"),
    *("state", "reason", "run"),
)


def collect(
    outputs: Path,
    experiments: Sequence[str] | None = None,
    faults: Faults | None = None,
) -> list[Table]:
    """Return the tables of the experiments (all that were ever planned if none is named).

    A table holds the newest plan of its experiment and the records on disk. With `faults`, errors
    of tables and of runs are added to them.

    Raises:
        UserError: an experiment was never planned, or a plan cannot be read.
    """
    records, tables = Records(RunStore(outputs)), []
    for name, plan in planned(outputs, experiments).items():
        with collect_errors(faults, name):
            tables.append(records.table(name, plan))
    rows = (row for table in tables for row in table.rows if row.get("damaged"))
    damaged = {
        row["run"]: UserError(f"run {row['run']}: {row['reason']}") for row in rows
    }
    if faults is not None:
        faults.extend(damaged.values())
    return tables


def write_tables(
    into: Path, tables: Iterable[Table], faults: Faults | None = None
) -> list[Table]:
    """Write tables as files; return those that could be written.

    With `faults`, errors are added to them; without, they are raised.
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
    """The records of a store, for several tables; those of a finished run are read once.

    `configs` are for runs that have no record yet.
    """

    def __init__(
        self, store: RunStore, configs: Mapping[str, Mapping[str, Any]] | None = None
    ) -> None:
        self._store = store
        self._configs = configs or {}
        self._known: dict[str, dict[str, Any]] = {}
        self._code = TrainedCode(store.outputs)

    def cells(self, id: str) -> dict[str, Any]:
        """Return the cells of a run, as they were when it was first asked for."""
        if id not in self._known:
            self._known[id] = run_cells(self._store.run(id), self._configs.get(id))
        return self._known[id]

    def tables(self, plan: Mapping[str, Any]) -> list[Table]:
        """Return the tables of a plan (plain data) with the present states of its runs."""
        known = self._known.items()
        self._known = {id: own for id, own in known if own["state"] == State.DONE}
        return [self.table(name, plan) for name in plan["experiments"]]

    def table(self, name: str, plan: Mapping[str, Any]) -> Table:
        """Return the table of an experiment of a plan."""
        table = _table(name, plan, self.cells)
        table = replace(
            table, provenance={**table.provenance, **self._asked(name, plan)}
        )
        if code_apart(table.rows) == []:
            return table
        return replace(table, code=mixed_code(table, self._code))

    def _asked(self, name: str, plan: Mapping[str, Any]) -> dict[str, Any]:
        """Return what was asked late, and other claims on the same runs; nothing if there is none.

        Claims that are judged together share the chance of error (sweeper/results/judge.py).
        """
        known = asked_in(self._store.outputs)
        own = asked_of(plan, name)
        late = late_terms(
            own, known, lambda run: self.cells(run)["state"] == State.DONE
        )
        found = {"asked_late": late, "asked_too": shared_claims(own, known)}
        return {key: value for key, value in found.items() if value}


def before_training(
    plan: Mapping[str, Any], configs: Mapping[str, Mapping[str, Any]]
) -> list[Table]:
    """Return the tables of a plan before anything is trained; `configs` are by run id."""

    def cells(id: str) -> dict[str, Any]:
        return {"run": id, "state": str(State.NEW), **planned_cells(configs[id])}

    return [_table(name, plan, cells) for name in plan["experiments"]]


def _table(
    name: str, plan: Mapping[str, Any], cells: Callable[[str], dict[str, Any]]
) -> Table:
    points = [point for point in plan["points"] if point["experiment"] == name]
    swept = {key for point in points for key in point["values"]}
    tasks = {point["run"]: point.get("task") for point in plan["points"]}
    shown = {*swept, str(plan["experiments"][name].get("x"))}
    ends = Counter(key.rpartition(".")[2] for key in swept)

    def words(values: Mapping[str, Any]) -> str:
        """Return a point in words; keys go by their last part where that is unique."""
        return " ".join(
            f"{end if ends[end := key.rpartition('.')[2]] == 1 else key}="
            f"{'null' if value is None else plain(value)}"
            for key, value in values.items()
        )

    rows, records = [], {}
    for point in points:
        own = dict(cells(point["run"]))
        files = {key: own.pop(key) for key in FILES if key in own}
        config = files.get("record", {}).get("config", {})
        _check_point(point, config)
        records[point["run"]] = files
        matched, chosen = point.get("matched") or {}, point.get("chosen") or {}
        of, about = point.get("alternative_to"), plan["runs"].get(point["run"], {})
        size, parent = dict(about.get("size", {})), about.get("parent")
        before = plan["runs"].get(parent, {}).get("size", {})
        if tasks.get(parent) != tasks.get(point["run"]):  # fine-tuned
            size |= {key: before[key] for key in before if key.startswith("params_")}
        elif before.get("params_attention"):
            share = size["params_attention"] / before["params_attention"]
            size["params_attention_saved"] = 1 - share
        row = {
            "task": point.get("task"),
            **{
                key: config[key] for key in shown if key in config
            },  # fixed here, varied elsewhere
            **{key: value for key, value in point["values"].items() if key != "seed"},
            **own,
            **chosen.get("values", {}),
            "trials": " ".join(chosen.get("trials", ())),
            **{key: size[key] for key in _SIZES if key in size},
            **({"model.head_size": size["head_size"]} if "head_size" in size else {}),
            "matched_to": str(matched.get("to", "")),
            "match_count": matched.get("count"),
            "match_error": matched.get("error"),
            **(
                {}
                if of is None
                else {"alternative_to": f"{point['arm']} {words(of)}".strip()}
            ),
            "parent": parent,
            "estimate": plan.get("estimate", {}).get(point["run"]),
            "experiment": name,
            "arm": point["arm"],
            "point": words(point["values"]),
            "seed": point["seed"],
        }
        # A cell is None, a boolean, a number, or a string that is not empty.
        rows.append(
            {key: None if cell == "" else plain(cell) for key, cell in row.items()}
        )
    provenance = {key: plan.get(key) for key in ("number", "command", "scale")}
    if plan.get("accept_mixed_code"):
        provenance["accept_mixed_code"] = True
    if "rounds" in plan:
        provenance["rounds"] = [
            {**r, "verdicts": r["verdicts"][name]} for r in plan["rounds"]
        ]
    settings = {words(point["values"]): point["values"] for point in points}
    return Table(
        name,
        plan["experiments"][name],
        provenance,
        settings,
        _columns(rows, swept),
        rows,
        records,
    )


def _columns(rows: Sequence[Mapping[str, Any]], swept: set[str]) -> list[str]:
    """Return the columns of these rows, in the order of this module's docstring."""
    found = dict.fromkeys(chain(*rows))
    named = {*_COLUMNS_BEFORE, *_SIZES, *_COLUMNS_MATCH, *_COLUMNS_AFTER, *_IN_MEMORY}
    tuned = any(row["trials"] for row in rows)
    free = sorted(
        key for key in found if key not in named and (tuned or key != "trials")
    )
    model = [key for key in free if key.startswith("model.")]
    metrics = [key for key in free if "/" in key and key not in swept]
    other = [key for key in free if key not in model and key not in metrics]
    sizes = [key for key in _SIZES if key in found]
    parents = ("parent",) if any(row["parent"] for row in rows) else ()
    return [
        *_COLUMNS_BEFORE,
        *model,
        *other,
        *sizes,
        *_COLUMNS_MATCH,
        *metrics,
        *_COLUMNS_AFTER,
        *parents,
    ]


def _check_point(point: Mapping[str, Any], config: Mapping[str, Any]) -> None:
    """Raise UserError if a point names a run of other values; `config` is by dotted key.

    A fine-tuning is named by the point of its pre-training. It has the seed and the weights of that
    point; its dropout and its training are those of its own task.
    """
    named = {"seed": point["seed"], **point["values"]}
    if "task" in named:
        named["task.name"] = named.pop("task")
    for key, value in named.items():
        weights = key.startswith("model.") and key != "model.dropout"
        if config.get("parent") and key != "seed" and not weights:
            continue
        found = config.get(key, value)
        # A folder is completed, and null and interpolations are resolved, when a run is planned.
        known = value is not None and found is not None and "${" not in str(value)
        apart = found != value and _alike(found) != _alike(value)
        if known and key != "data.root" and apart:
            expected = f"{key}={plain(value)}, the value of its point in the plan"
            run = f"{key} of run {point['run']}"
            raise invalid_value(run, plain(found), expected, "plan the sweep again")


def _alike(value: Any) -> Any:
    """Return the entry of a list of equal entries: model.head_size=[8,8] is 8 in a run."""
    own = [*map(_alike, value)] if isinstance(value, list) else []
    return own[0] if own and all(one == own[0] for one in own) else own or value


def plain(value: Any) -> Any:
    """Return a value as a cell: None, a boolean, a number, or a string."""
    # The exact type is asked first: isinstance of a union is slow, and there are millions of cells.
    if type(value) in PLAIN or isinstance(value, str | int | float):
        return value
    return canonical(value)
