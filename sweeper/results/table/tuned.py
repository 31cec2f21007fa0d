"""How the values that a result rests on were chosen, in words, and what that leaves open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sweeper.results.table.columns import label

_PER = {"arm": "arm", "size": "arm and size", "point": "point"}


def tuned_in_words(experiment: Mapping[str, Any]) -> list[str]:
    """Sentences on the choices for an experiment, as its plan describes it; none if untuned."""
    found: Sequence[Mapping[str, Any]] = experiment.get("tuning") or ()
    if not found:
        return []
    tune, keys = experiment["tune"], list(found[0]["values"])
    names = ", ".join(map(label, keys))
    among = _range([choice["among"] for choice in found])
    words = [_chosen(arm, found, keys) for arm in dict.fromkeys(one["arm"] for one in found)]
    per = _PER[tune["per"]]
    chosen = f"{names} chosen on validation among {among} per {per}: {'; '.join(words)}."
    told = [chosen[0].upper() + chosen[1:]]
    if carried := tune.get("transfer"):
        rule = "at other widths it is that times the root of their ratio"
        told.append(f"Found at the least embedding size of {', '.join(carried)}: {rule}.")
    if tune["unequal"]:
        told.append(f"Only {', '.join(tune['arms'])} tuned: {tune['unequal']}")
    at_end = [one for one in found if one["at_end"]]
    if at_end:
        words = [_chosen(arm, at_end, keys) for arm in dict.fromkeys(one["arm"] for one in at_end)]
        told.append(f"At an end of what was tried, so perhaps not at its best: {'; '.join(words)}.")
    return [*told, _certainty(found)]


def _chosen(arm: str, found: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> str:
    own = [one["values"] for one in found if one["arm"] == arm]
    return f"{arm} {' '.join(_range([values[key] for values in own]) for key in keys)}"


def _certainty(found: Sequence[Mapping[str, Any]]) -> str:
    if all(one["alike"] is None for one in found):
        return "One seed a trial: how sure the choices are is unknown."
    unsure = sum(bool(one["alike"]) for one in found)
    agreeing, seeds = (sum(one[key] for one in found) for key in ("agreeing", "seeds"))
    return (
        f"{unsure} of {len(found)} choices cannot be told from another value tried; "
        f"{agreeing} of {seeds} seeds alone would have chosen the same."
    )


def _range(values: Sequence[Any]) -> str:
    """Numbers from the least to the most; words one by one."""
    known = list(dict.fromkeys(values))
    if len(known) > 1 and all(isinstance(value, int | float) for value in known):
        return f"{min(known):g} to {max(known):g}"
    return ", ".join(f"{v:g}" if isinstance(v, float) else str(v) for v in known)
