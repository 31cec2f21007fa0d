"""What the results of a command line are called: by what was typed, so that no two share a name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sweeper.plan.compose import Composer, RunTemplate
from sweeper.plan.experiment import Experiment
from sweeper.plan.typed import Typed
from sweeper.store.errors import wrong
from sweeper.store.identity import can_change_results, digest_of

_LONGEST = 56  # letters; with the number of a plan it still is a file name (results/table.py)
_PLAIN = re.compile(rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,{_LONGEST - 1}}}")


def check_name(name: Any, experiments: int) -> None:
    """UserError if what `name` says cannot be the name of what so many experiments leave."""
    expected = f"at most {_LONGEST} letters, digits, '_' and '-', a letter or a digit first"
    if not isinstance(name, str) or not _PLAIN.fullmatch(name):
        raise wrong("name", name, expected, "choose another name")
    if experiments > 1:
        raise wrong("name", name, "one experiment or grid to name", "type them one by one")


def name_of(typed: Typed, experiment: Experiment | None, composer: Composer) -> str:
    """The name of what a command line leaves of one experiment, or of a grid without one.

    That is the experiment's own, and after it every key typed that can change a result, with its
    values; those left out that are so without being typed, and seeds that leave out none.
    """
    base = experiment.yaml if experiment else "grid" if typed.axes.keys() - {"seed"} else "run"
    given = {**typed.axes, **typed.values}
    ordered = sorted(given, key=lambda key: ("." in key, key))  # yaml files first
    asked = {key: given[key] for key in ordered if can_change_results(key)}
    if not asked:
        return base
    plain = composer.base([f"experiment={experiment.yaml}"] if experiment else [])
    words = [base]
    for key, value in asked.items():
        if key == "seed":
            own = experiment.seeds if experiment else [plain.run({})["seed"]]
            changes = not set(own) <= set(value if key in typed.axes else [value])
        else:
            changes = key in typed.axes or not _is_so(key, value, plain, experiment)
        if changes:
            words += [*_key(key, composer), _in_words(key, value)]
    name = "-".join(word for word in words if word)
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 9]}-{digest_of(name)[:8]}"


def _is_so(key: str, value: Any, plain: RunTemplate, experiment: Experiment | None) -> bool:
    """Whether a key has the value anyway, in every arm; of an experiment, scales may differ."""
    arms = experiment.arms.values() if experiment else ()
    varied = any(key in keys.split(",") for arm in arms for keys in (*arm.set, *arm.grid))
    return not varied and not key.startswith("experiment.") and plain.says(key, value)


def _key(key: str, composer: Composer) -> list[str]:
    """The last word of a key; none for a choice of yaml files and a folder, which say it alone."""
    silent = composer.is_group(key) or key == "data.root"
    return [] if silent else [key.lstrip("+").rpartition(".")[2]]


def _in_words(key: str, value: Any) -> str:
    if isinstance(value, list):
        return "-".join(_in_words(key, one) for one in value)
    if key == "data.root":
        value = Path(str(value)).name
    word = "null" if value is None else str(value).lower() if value in (True, False) else str(value)
    return re.sub(r"[^A-Za-z0-9]+", "_", word).strip("_")
