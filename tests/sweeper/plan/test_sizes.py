"""Sizes are remembered for as long as the code that they are facts about stays as it is."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock

from sweeper.plan.sizes import Sizes
from sweeper.size_server import SizeServer

CONFIG: dict[str, Any] = {"seed": 3, "task": {"name": "lm1b"}, "model": {"heads": 7}}


def asked(memory: Path) -> int:
    """How many models are built for the size of one config."""
    process = Mock(spec=SizeServer)
    process.ask = Mock(side_effect=lambda asked: [{"size": {"params_total": 17}} for _ in asked])
    sizes = Sizes(process, memory)
    assert sizes.of([CONFIG, {**CONFIG, "seed": 5}]) == [{"params_total": 17}] * 2
    sizes.save()
    return sizes.built


def test_a_size_is_built_once_until_an_outside_model_changes(installed):
    memory = installed.folder / "sizes.json"
    assert [asked(memory), asked(memory)] == [1, 0]
    module = installed("mine", "SIZE = 1", {"headroom.attention": "mine = mine"})
    assert [asked(memory), asked(memory)] == [1, 0]
    module.write_text("SIZE = 2")
    installed.forget()
    assert [asked(memory), asked(memory)] == [1, 0]


def test_what_editors_leave_beside_the_code_is_no_code(tmp_path, monkeypatch):
    memory, root = tmp_path / "sizes.json", tmp_path / "root"
    (root / "models").mkdir(parents=True)
    (root / "models" / "block.py").write_text("")
    monkeypatch.setattr("sweeper.store.registry.ROOT", root)
    assert asked(memory) == 1
    (root / "models" / ".#block.py").symlink_to("somebody@host.17")
    assert asked(memory) == 0


def test_what_was_changed_in_the_memory_is_not_used(tmp_path):
    memory = tmp_path / "cache" / "sizes.json"
    assert [asked(memory), asked(memory)] == [1, 0]
    for damage in ('"params_total":17', '"sha256":"'):
        memory.write_text(memory.read_text().replace(damage, f"{damage}0"))
        assert [asked(memory), asked(memory)] == [1, 0]
    memory.unlink()
    os.mkfifo(memory)
    assert [asked(memory), asked(memory)] == [1, 0]


def test_what_cannot_change_a_size_builds_none(installed):
    memory = installed.folder / "sizes.json"
    module = installed("drawing", "SIZE = 1", {"headroom.figures": "drawing = drawing"})
    assert asked(memory) == 1
    module.write_text("SIZE = 2")
    installed.forget()
    assert asked(memory) == 0
