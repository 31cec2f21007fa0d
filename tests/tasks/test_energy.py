"""Energy is said where the machine tells it, and nothing is said where it does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks import energy
from tasks.energy import Energy


@pytest.fixture
def meters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Two processors as Linux shows them, one with a part of its own that is not to be counted."""
    monkeypatch.setattr(energy, "RAPL", tmp_path)

    def tell(**joules: float) -> None:
        for name, value in joules.items():
            folder = tmp_path / name.replace("_", ":").replace("rapl", "intel-rapl")
            folder.mkdir(exist_ok=True)
            (folder / "energy_uj").write_text(f"{int(value * 1e6)}\n")
            (folder / "max_energy_range_uj").write_text("1000000000\n")

    return tell


def test_all_processors_count_and_a_meter_may_begin_anew(meters) -> None:
    meters(rapl_0=100, rapl_1=990, rapl_0_0=7)
    one = Energy("cpu")
    meters(rapl_0=150, rapl_1=5, rapl_0_0=70)
    assert one.joules() == {"energy_joules": pytest.approx(50 + 15)}


def test_where_nothing_tells_nothing_is_said(meters, tmp_path: Path) -> None:
    assert Energy("cpu").joules() == {}
    assert Energy("cuda").joules() == {}  # no NVML here, or no GPU
    meters(rapl_0=100)
    one = Energy("cpu")
    (tmp_path / "intel-rapl:0" / "energy_uj").write_text("")
    assert one.joules() == {}
