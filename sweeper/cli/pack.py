"""The pack command: plan experiments if necessary, prepare their data, and write a pack."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rich.console import Console
from rich.text import Text

from sweeper.decide import check_claims
from sweeper.export.pack import (
    MEGABYTE,
    check_output,
    unfinished,
    wheels_for,
    wheels_in,
    write_pack,
)
from sweeper.hydra_section import composer
from sweeper.plan.experiment import SUFFIX
from sweeper.plan.overrides import outputs_override
from sweeper.plan.planner import Planner
from sweeper.publish import relative_path
from sweeper.run.failures import hours
from sweeper.size_server import size_server
from sweeper.store.errors import invalid_value
from sweeper.store.plans import newest, runs_of
from sweeper.store.runs import RunStore
from sweeper.train import freeze, prepare
from sweeper.tune import Tuning


def pack(
    console: Console,
    outputs: Path,
    words: Sequence[str],
    path: Path,
    *,
    config_dir: str | None,
    wheels: Path | None,
    python: str | None,
    max_mb: float | None,
) -> None:
    """Write a pack of the unfinished runs of experiments.

    `words` are names of experiments, and overrides (KEY=VALUE, ~KEY). With overrides, or if one was
    never planned, all experiments are planned again, with the yaml files of `config_dir` too. Raise
    UserError if that fails.
    """
    check_output(path, max_mb)
    overrides = [word for word in words if "=" in word or word.startswith("~")]
    names = [word for word in words if word not in overrides]
    loaded = composer(config_dir=config_dir)
    hydra = loaded.hydra([word for word in overrides if word.startswith("hydra")])
    launcher = hydra["runtime"]["choices"]["hydra/launcher"]
    if launcher != "local":
        remedy = "leave it out; run.py places the runs on the GPUs of the machine it is started on"
        raise invalid_value("hydra/launcher", launcher, "local", remedy)
    store = RunStore(outputs)
    with TemporaryDirectory() as downloads, closing(size_server()) as process:
        packed_wheels = wheels_in(wheels) if wheels else []
        packed_wheels += wheels_for(python, Path(downloads)) if python else []
        if overrides or not names or not set(names) <= newest(outputs).keys():
            experiments = [f"experiment={','.join(names)}"] if names else []
            planner = Planner(loaded, process, max_runs=int(hydra["sweeper"]["max_runs"]))
            plan = planner.plan([*experiments, *overrides, outputs_override(outputs)])
            check_claims(plan)
            if plan.tuned:
                tuning = Tuning.of(plan, process, store)
                plan = tuning.judged or tuning.trials
            freeze(plan, store, {})
            names = list(plan.experiments)
        runs = unfinished(outputs, {name: newest(outputs)[name] for name in names})
        configs = {run: store.run(run).record()["config"] for run in runs}
        prepare(console, store, process, configs, set())
        known = newest(outputs)
        with_trials = [*names, *(f"{name}{SUFFIX}" for name in names)]
        spent = {run for one in with_trials if one in known for run in runs_of(known[one], one)}
        about = {
            "experiments": names,
            "options": options_of(hydra),
            "spent_h": hours(store, sorted(spent)),
        }
        written = write_pack(path, store, runs, about, process, wheels=packed_wheels, max_mb=max_mb)
    for part in written:
        size = part.stat().st_size / MEGABYTE
        console.print(Text(f"{relative_path(part)}: {size:.1f} MB"), soft_wrap=True)
    trials = any(name.endswith(SUFFIX) for name in names)
    kind = ("trial" if trials else "run") + ("" if len(runs) == 1 else "s")
    join = f"cat {path.name}.* > {path.name} && " if len(written) > 1 else ""
    command = f"{join}unzip -q {path.name} && cd {path.stem} && python run.py"
    console.print(Text(f"{len(runs)} {kind} to train; there: {command}"), soft_wrap=True)
    if trials:
        console.print(Text("Merge their results, then pack again the runs that they choose."))


def options_of(hydra: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of the sweep and the launcher by key, without Hydra's `_target_`."""
    return {
        f"hydra.{section}.{key}": value
        for section in ("sweeper", "launcher")
        for key, value in hydra[section].items()
        if key != "_target_"
    }
