"""From names of experiments, or a command line as a sweep takes it, to a pack of their runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from sweeper.carry.archive import MEGABYTE
from sweeper.carry.pack import unfinished, write_pack
from sweeper.decide import check_claims
from sweeper.hydra_section import composer
from sweeper.plan.compose import Composer
from sweeper.plan.planner import Planner
from sweeper.plan.trials import SUFFIX
from sweeper.publish import relative_path
from sweeper.size_server import SizeServer, size_server
from sweeper.store.errors import invalid_value
from sweeper.store.plans import newest
from sweeper.store.runs import RunStore
from sweeper.train import freeze, prepare
from sweeper.tune import Tuning


def pack(
    console: Console,
    outputs: Path,
    words: Sequence[str],
    path: Path,
    *,
    wheels: Path | None,
    max_mb: float | None,
) -> None:
    """Write a pack of what is not done of experiments; those not planned yet are planned first.

    Args:
        words: names of experiments, and overrides (KEY=VALUE): with any, all of it is planned anew.

    Raises:
        UserError: it cannot be planned, prepared or packed.
    """
    names = [word for word in words if "=" not in word]
    overrides = [word for word in words if "=" in word]
    loaded = composer()
    hydra = loaded.hydra([word for word in overrides if word.startswith("hydra")])
    launcher = hydra["runtime"]["choices"]["hydra/launcher"]
    if launcher != "local":
        remedy = "leave it out; run.py places the runs on the GPUs of the machine it is started on"
        raise invalid_value("hydra/launcher", launcher, "local", remedy)
    with size_server() as process:
        if overrides or not names or not set(names) <= newest(outputs).keys():
            names = _planned(loaded, process, outputs, names, overrides, hydra)
        plans = {name: newest(outputs)[name] for name in names}
        store, runs = RunStore(outputs), unfinished(outputs, plans)
        configs = {run: store.run(run).record()["config"] for run in runs}
        prepare(console, store, process, configs, set())
        about = {"experiments": names, "options": _options(hydra)}
        written = write_pack(path, store, runs, about, process, wheels=wheels, max_mb=max_mb)
    trials = any(name.endswith(SUFFIX) for name in names)
    what = "trials (then pack again: what they choose)" if trials else "runs"
    _say(console, path, written, f"{len(runs)} {what}")


def _say(console: Console, path: Path, written: Sequence[Path], runs: str) -> None:
    """What was written, and what to do with it."""
    for part in written:
        size = part.stat().st_size / MEGABYTE
        console.print(Text(f"{relative_path(part)}: {size:.1f} MB"), soft_wrap=True)
    source = str(path) if len(written) == 1 else f"<(cat {path}.*)"
    folder = path.name.partition(".")[0]
    told = f"{runs} to train; there: tar xf {source} && cd {folder} && python run.py"
    console.print(Text(told), soft_wrap=True)


def _options(hydra: Mapping[str, Any]) -> dict[str, Any]:
    """How to train, by key; what Hydra makes the sweeper of is no part of that."""
    sections = {f"hydra.{name}": hydra[name] for name in ("sweeper", "launcher")}
    return {
        f"{section}.{key}": value
        for section, values in sections.items()
        for key, value in values.items()
        if key != "_target_"
    }


def _planned(
    composer: Composer,
    process: SizeServer,
    outputs: Path,
    names: Sequence[str],
    overrides: Sequence[str],
    hydra: Mapping[str, Any],
) -> list[str]:
    """Plan and freeze; the names of the experiments, of trials where these have to choose first."""
    experiments = [f"experiment={','.join(names)}"] if names else []
    arguments = [*experiments, *overrides, f"paths.outputs={outputs}"]
    planner = Planner(composer, process, max_runs=int(hydra["sweeper"]["max_runs"]))
    store, plan = RunStore(outputs), planner.plan(arguments)
    check_claims(plan)
    tuning = Tuning.of(plan, process, store)
    plan = tuning.judged or tuning.trials
    freeze(plan, store, {})
    return list(plan.experiments)
