"""Who is told what became of a sweep: by a command of theirs, and by W&B; nothing ever fails it."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from sweeper.publish import Telling
from sweeper.results import notify as notifying
from sweeper.results.notify import notify
from sweeper.store.files import publish_json

TELLER = """
import json, os, sys
told = {key: value for key, value in os.environ.items() if key.startswith("HEADROOM_")}
with open(sys.argv[1], "a") as file:
    file.write(json.dumps([sys.argv[2:], told]) + "\\n")
"""
WANDB = {"name": "wandb", "mode": "online", "project": "headroom", "entity": None}


@pytest.fixture
def told(tmp_path: Path):
    """A command that writes down what it is told; and what it wrote."""
    teller, file = tmp_path / "teller.py", tmp_path / "told.jsonl"
    teller.write_text(TELLER)
    command = [sys.executable, str(teller), str(file)]
    return command, lambda: [json.loads(line) for line in file.read_text().splitlines()]


def test_a_title_is_one_word_whatever_it_holds(told, tmp_path: Path) -> None:
    command, heard = told
    hostile = "$(touch /tmp/x); `id` \"'\n\x1b[2J fig1 && rm -r ."
    assert notify(command, "sweep", hostile, tmp_path) == ""
    [[words, environment]] = heard()
    assert words == [hostile.replace("\n", "\\n").replace("\x1b", "\\x1b")]
    assert environment["HEADROOM_EVENT"] == "sweep"
    assert environment["HEADROOM_MESSAGE"] == words[0]
    assert environment["HEADROOM_OUTPUTS"] == str(tmp_path)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["/no/such/command"], id="missing"),
        pytest.param([sys.executable, "-c", "raise SystemExit(3)"], id="fails"),
        pytest.param(["sleep", "600"], id="hangs"),
        pytest.param([""], id="empty"),
    ],
)
def test_a_command_that_cannot_tell_is_said_and_harms_nothing(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notifying, "PATIENCE_S", 0.2 if command[0] == "sleep" else 30.0)
    if command[0] == "sleep":
        command = ["sh", "-c", "sleep 600"]
    sentence = notify(command, "sweep", "over", tmp_path)
    assert sentence.startswith("hydra.sweeper.notify could not tell of it: ")


def telling(command: list[str], outputs: Path, logger: dict[str, Any]) -> tuple[Telling, Any]:
    console = Console(file=io.StringIO(), width=200)
    return Telling(console, outputs, command, logger), console.file


def verdict(answer: str, claim: str = "small_beats_large") -> Any:
    return SimpleNamespace(claim=claim, measure="", verdict=answer)


def test_a_claim_is_told_once_when_it_has_an_answer(told, tmp_path: Path) -> None:
    command, heard = told
    known = {"claim": "known", "measure": "", "verdict": "supported"}
    (tmp_path / "tables").mkdir()
    publish_json(tmp_path / "tables" / "fig1.claims.json", {"verdicts": [known]})
    one, _ = telling(command, tmp_path, {})
    one.know(["fig1", "never judged"])
    one.claims({"fig1": [verdict("undecided"), verdict("supported", "known")]})
    for _ in range(2):
        one.claims({"fig1": [verdict("not supported"), verdict("supported", "known")]})
    [[words, environment]] = heard()
    assert words == ["fig1: small_beats_large: not supported"]
    assert environment["HEADROOM_EVENT"] == "claim"


def test_wandb_alerts_where_runs_are_mirrored_online_and_only_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[Any] = []
    run = SimpleNamespace(
        alert=lambda **about: said.append(about), finish=lambda: said.append("finished")
    )
    fake = SimpleNamespace(init=lambda **about: run, Settings=lambda **about: about)
    monkeypatch.setitem(sys.modules, "wandb", fake)
    for logger in ({"name": "none"}, {**WANDB, "mode": "offline"}, WANDB):
        telling([], tmp_path, logger)[0].tell("breaker", "3 runs in a row failed alike")
    assert said == [
        {"title": "Headroom: breaker", "text": "3 runs in a row failed alike"}, "finished",
    ]  # fmt: skip
    fake.init = lambda **about: 1 / 0
    one, printed = telling([], tmp_path, WANDB)
    one.tell("sweep", "over")
    assert "W&B could not tell of it: division by zero" in printed.getvalue()
