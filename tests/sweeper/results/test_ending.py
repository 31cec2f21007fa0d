"""The end of a sweep: verdicts, the cost of deciding open claims, and the paths of results."""

import io
import json
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from sweeper.results import figures
from sweeper.results.collect import collect
from sweeper.results.judge import verdicts_on
from sweeper.results.summary import brief, print_prices
from sweeper.stages import publish
from sweeper.stages.publish import collect_and_judge, print_everything
from sweeper.stages.terminal import print_lines
from sweeper.store.registry import ROOT
from tests.sweeper.results.report.reported import content_of
from tests.sweeper.results.synthetic import by_hand, edited, few, figure1, finetuned

OWN_GRID = "  Train a grid of your own:"


def said(told, *arguments, width=400):
    """Return the lines that a function prints to the console that is its first argument."""
    file = io.StringIO()
    told(Console(file=file, width=width), *arguments)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def ended(outputs, *names):
    """Return the lines that a sweep of these experiments prints at its end."""
    return said(print_everything, outputs, names)


def grid(outputs, *heads):
    """Write the sweep of a grid from the command line."""
    return by_hand({"model.heads": heads or [2, 3]}).write(outputs)


def shown(page):
    """Return the experiments on a page."""
    return [one["name"] for one in content_of(page)["experiments"]]


def summarised(tables, verdicts, width=400):
    """Return the lines of the summary of these tables."""
    return said(print_lines, *brief(tables, verdicts), width=width)


def test_each_verdict_has_a_line_that_says_what_would_decide_it():
    table = figure1(noise=0.008).table()
    verdicts = verdicts_on(table)
    lines = summarised([table], {table.name: verdicts})
    assert lines[0].split()[:3] == ["experiment", "verdict", "claim"]
    for verdict, line in zip(verdicts, lines[1:], strict=True):
        assert str(verdict.verdict) in line
        assert verdict.claim in line
    [undecided] = [line for line in lines if "standard_worsens_beyond" in line]
    price = "4 seeds per point: 12 runs, 2:30"  # 12.5 s a run
    assert price in undecided
    assert price in " ".join(said(print_prices, [table]))


def test_the_summary_has_a_line_for_each_claim_at_any_width_and_no_markup():
    table = replace(figure1(noise=0.008).table(), name="[bold]\x1b[31m")
    verdicts = {table.name: verdicts_on(table)}
    wide, narrow = (summarised([table], verdicts, width) for width in (400, 80))
    assert max(map(len, narrow)) <= 80
    assert wide[1].startswith("[bold]\\x1b[31m  ")
    for line, whole in zip(narrow, wide, strict=True):
        assert whole.startswith(line.removesuffix("…").rstrip())


def test_what_a_reader_must_know_has_a_line_that_experiments_share():
    table = few().table()
    table = edited(table, code=lambda row: row["run"])
    tables = [replace(table, name=name) for name in ("one", "two")]
    [line] = summarised(tables, {"one": [], "two": []})
    assert line == "one, two: Runs of 4 versions of the program."


def test_a_claim_judged_by_several_metrics_has_a_line_for_each():
    table = finetuned("fig2", claims=["fixed_keeps_improving"]).table()
    [_, *lines] = summarised([table], {"fig2": verdicts_on(table)})
    for line, metric in zip(
        lines, ("SQuAD F1", "SQuAD exact match", "MNLI accuracy (%)"), strict=True
    ):
        assert f"fixed_keeps_improving, {metric}  " in line


def test_files_are_named_and_the_page_is_of_all_that_was_planned(tmp_path):
    page, figures = tmp_path / "report.html", tmp_path / "figures"
    grid(tmp_path)
    lines = ended(tmp_path, "grid")
    assert any(line.startswith("grid  ") and "heads=2" in line for line in lines)
    assert OWN_GRID not in lines
    few().write(tmp_path)
    lines = ended(tmp_path, "fig1")
    # With claims, the means stand above the verdicts.
    starts = [line.partition(" ")[0] for line in lines]
    assert 0 < starts.index("standard") < starts.index("experiment")
    assert {OWN_GRID, f"    {page}", f"  {figures / 'fig1.png'}"} <= {*lines}
    assert f"  {figures / 'grid.png'}" not in lines
    assert shown(page) == ["fig1", "grid"]
    grid(tmp_path, 2, 3, 5)
    ended(tmp_path, "grid")
    assert shown(page) == ["grid", "fig1"]


def test_without_a_finished_run_no_figure_is_drawn_or_named(tmp_path):
    few(done=lambda arm, model, seed: False).write(tmp_path)
    lines = ended(tmp_path, "fig1")
    assert "Tables:" in lines
    assert not any("figures" in line or line.startswith("Figures") for line in lines)
    assert not (tmp_path / "figures" / "fig1.png").exists()


def test_another_experiment_that_cannot_be_judged_keeps_no_sweep_from_its_page(
    tmp_path,
):
    few(claims=["no_such_claim"]).write(tmp_path)
    grid(tmp_path)
    assert any("no_such_claim" in line for line in ended(tmp_path, "grid"))
    assert shown(tmp_path / "report.html") == ["grid"]


def test_a_figure_is_drawn_again_where_it_is_not_as_drawn_from_its_table_and_only_there(
    tmp_path,
):
    figure = tmp_path / "figures" / "grid.svg"

    def drawn():
        ended(tmp_path, "grid")
        return figure.stat().st_mtime_ns, figure.read_bytes()

    grid(tmp_path)
    first = drawn()
    assert drawn() == first
    grid(tmp_path, 2, 3, 5)
    collect_and_judge(tmp_path, None)  # the table is new and its figure is not
    second = drawn()
    assert second[1] != first[1]
    for damage in (Path.unlink, lambda path: path.write_text("damaged")):
        damage(figure)
        assert drawn()[1] == second[1]


def test_another_plan_on_the_same_runs_changes_the_figure_and_the_verdicts(tmp_path):
    """Then the claims share the error, and the caption names a higher confidence."""
    drawn = []
    for name, claim in (
        ("fig1", "fixed_keeps_improving"),
        ("more", "saves_parameters"),
    ):
        figure1(name=name, claims=[claim]).write(tmp_path)
        ended(tmp_path, name)
        drawn.append((tmp_path / "figures" / "fig1.svg").read_bytes())
    assert drawn[0] != drawn[1]
    written = (tmp_path / "tables" / "fig1.claims.json").read_text()
    assert json.loads(written)["verdicts"][0]["numbers"]["claims"] == 2


def test_a_figure_is_out_of_date_after_its_code_changed(tmp_path, monkeypatch):
    grid(tmp_path)
    ended(tmp_path, "grid")
    [table] = collect(tmp_path)
    folder = Path("sweeper", "results")
    shutil.copytree(ROOT / folder, tmp_path / folder)
    monkeypatch.setattr(figures, "ROOT", tmp_path)
    assert figures.is_drawn(tmp_path, table)
    (tmp_path / folder / "palette.py").write_text("PALETTE = {}")
    assert not figures.is_drawn(tmp_path, table)


def test_a_figure_that_another_process_wrote_meanwhile_is_out_of_date(
    tmp_path, monkeypatch
):
    grid(tmp_path)
    [table] = collect(tmp_path)

    publish_made = figures.publish_made

    def published(path, data):
        publish_made(path, data)
        if path.suffix == ".svg":
            publish_made(path, b"drawn from an older table")

    monkeypatch.setattr(figures, "publish_made", published)
    figures.write_figures(tmp_path, [table])
    assert not figures.is_drawn(tmp_path, table)


def test_the_last_lines_suggest_what_works_with_the_logger_of_the_newest_sweep(
    tmp_path,
):
    grid(tmp_path)
    wandb, option = tmp_path / "wandb", f"--outputs {tmp_path}"
    offline = wandb / "offline-run-20250101_000000-"
    Path(f"{offline}of-another-sweep").mkdir(parents=True)
    assert f"    python -m sweeper collect {option}" in ended(tmp_path, "grid")
    mirrored = few()
    for record in mirrored.records.values():
        record.config["logger"] = {"name": "wandb"}
    mirrored.write(tmp_path)
    assert f"    python -m sweeper dashboard fig1 {option}" in ended(tmp_path, "fig1")
    Path(f"{offline}{next(iter(mirrored.records))}").mkdir()
    assert f"    wandb sync {wandb}" in ended(tmp_path, "fig1")
    assert f"    python -m sweeper collect grid {option}" in ended(tmp_path, "grid")


@pytest.fixture
def living(tmp_path, monkeypatch):
    """Return the live page of an unfinished sweep with two slots, and its fake clock."""
    few(seeds=2, done=lambda arm, model, seed: seed == 0).write(tmp_path)
    clock = SimpleNamespace(now=1000.0, thread_time=lambda: 0.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(publish, "time", clock)
    return publish.LivePage(tmp_path, slots=2), clock


def test_the_page_lives_while_a_sweep_trains_and_is_whole_once_it_is_stopped(
    living, tmp_path
):
    results, _ = living
    page = tmp_path / "report.html"

    def states():
        return {run["state"] for run in content_of(page)["runs"].values()}

    results.write()
    assert not (tmp_path / "tables").exists(), "another sweep may write them"
    assert f'name="refresh" content="{publish.PAGE_S:.0f}"' in page.read_text()
    assert states() == {"done", "new"}
    few(seeds=2).write(tmp_path)  # the other runs end meanwhile
    with pytest.raises(SystemExit), results:
        raise SystemExit(130)
    assert 'name="refresh"' not in page.read_text()
    assert states() == {"done"}


def test_the_page_takes_a_share_of_the_time_of_the_runs_and_no_more(
    living, monkeypatch
):
    results, clock = living
    written = []
    monkeypatch.setattr(results, "write", lambda: written.append(clock.now))
    clock.thread_time = iter([0.0, 3.0]).__next__
    publish.LivePage.write(results)
    pause = 3.0 / publish.PAGE_SHARE / 2
    with results:
        for now in (pause - 1, pause):
            clock.now = 1000 + now
            results.tick()
    assert written == [1000 + pause]


@pytest.mark.parametrize("value", [7.8e153, 1e300, -41.0])
def test_everything_is_made_of_data_with_a_run_that_diverged(tmp_path, value):
    claims = ["standard_worsens_beyond", "wins_at_equal_size", "saves_parameters"]
    sweep = few(seeds=5, claims=claims)
    next(iter(sweep.results.values()))["metrics"][sweep.metric] = value
    file = io.StringIO()
    assert print_everything(Console(file=file), sweep.write(tmp_path), ["fig1"])
    assert "saves_parameters" in file.getvalue()
    made = [tmp_path / "figures" / "fig1.pdf", tmp_path / "report.html"]
    assert min(path.stat().st_size for path in made) > 0
