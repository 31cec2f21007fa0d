"""One run that diverged ends nothing: tables, verdicts, figures and the page are made anyway."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from sweeper.publish import collect_and_judge, print_tables
from sweeper.results.draw import write_figures
from sweeper.results.report.page import write_report
from tests.sweeper.results.grids import FEW, figure1


@pytest.mark.parametrize("value", [7.8e153, -41.0])
def test_everything_is_made_of_data_with_a_run_that_diverged(tmp_path: Path, value: float) -> None:
    sweep = figure1(grid=FEW, seeds=5)
    next(iter(sweep.results.values()))["metrics"][sweep.metric] = value
    sweep.claims = ["standard_worsens_beyond", "wins_at_equal_size", "saves_parameters"]
    tables, verdicts = collect_and_judge(sweep.write(tmp_path), None)
    printed = io.StringIO()
    print_tables(Console(file=printed), tmp_path, tables, verdicts)
    assert "saves_parameters" in printed.getvalue()
    write_figures(tmp_path, tables)
    assert (tmp_path / "figures" / "fig1.pdf").stat().st_size > 0
    assert write_report(tmp_path, tables, verdicts).stat().st_size > 0
