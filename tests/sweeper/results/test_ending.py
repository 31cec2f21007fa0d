"""The end of a sweep: verdicts, the cost of deciding open claims, and the paths of results."""

import io
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from sweeper.results.collect import collect
from sweeper.results.figures import write_figures
from sweeper.results.judge import verdicts_on
from sweeper.results.report.page import write_report
from sweeper.results.summary import brief, print_prices
from sweeper.stages import publish
from sweeper.stages.publish import collect_and_judge, print_everything, print_tables
from sweeper.store.numbers import clock
from sweeper.store.runs import RunStore
from tests.sweeper.results.finetuned import Finetuned
from tests.sweeper.results.grids import FEW, by_hand, figure1
from tests.sweeper.results.report.reported import content_of
from tests.sweeper.results.synthetic import Model, Sweep

OWN_GRID = "  Train a grid of your own:"


def ended(outputs, *names, width=400):
    """Return the lines that a sweep of these experiments prints at its end."""
    file = io.StringIO()
    print_everything(Console(file=file, width=width), outputs, names)
    return [line.rstrip() for line in file.getvalue().splitlines()]


def grid(outputs, *heads):
    """Write the sweep of a grid from the command line."""
    return by_hand({"model.heads": heads or [2, 3]}).write(outputs)


def shown(page):
    """Return the experiments on a page."""
    return [one["name"] for one in content_of(page)["experiments"]]


def test_a_record_that_cannot_be_read_is_told(tmp_path):
    grid(tmp_path)
    run = RunStore(tmp_path).run(RunStore(tmp_path).ids()[0])
    run.attempts()[0].path.joinpath("attempt.json").write_text("{")
    file = io.StringIO()
    assert not print_everything(Console(file=file), tmp_path, ["grid"])
    assert f"run {run.id}: " in file.getvalue()


def test_each_verdict_has_a_line_that_says_what_would_decide_it(tmp_path):
    table = figure1(noise=0.008).table(tmp_path)
    verdicts = verdicts_on(table)
    for width in (80, 200):
        lines = [line.plain for line in brief([table], {table.name: verdicts}, width)]
        assert all(len(line) <= width for line in lines)
        assert lines[0].split()[:3] == ["experiment", "verdict", "claim"]
    by_claim = {verdict.claim: str(verdict.verdict) for verdict in verdicts}
    assert by_claim["fixed_keeps_improving"] == "supported"
    assert by_claim["standard_worsens_beyond"] == "undecided"
    [undecided] = [line for line in lines if "standard_worsens_beyond" in line]
    assert "4 seeds per point: 12 runs, 2:30" in undecided
    assert all(any(claim in line for line in lines) for claim in by_claim)


def test_what_a_reader_must_know_has_a_line_that_experiments_share(tmp_path):
    table = figure1(grid=FEW, seeds=1).table(tmp_path)
    rows = [{**row, "code": str(number)} for number, row in enumerate(table.rows)]
    tables = [replace(table, name=name, rows=rows) for name in ("one", "two")]
    [line] = [line.plain for line in brief(tables, {"one": [], "two": []}, 200)]
    assert line == f"one, two: Runs of {len(rows)} versions of the program."


def test_measures_that_agree_share_a_line(tmp_path):
    about = {"claims": ["fixed_keeps_improving"]}
    table = Finetuned("fig2", about=about).table(tmp_path)
    [_, row] = brief([table], {"fig2": verdicts_on(table)}, 200)
    assert "fixed_keeps_improving" in row.plain


def test_files_are_named_and_the_page_is_of_all_that_was_planned(tmp_path):
    grid(tmp_path)
    lines = ended(tmp_path, "grid")
    means = [line for line in lines if line.startswith("grid  ")]
    assert any("heads=2" in line for line in means)
    assert OWN_GRID not in lines
    figure1(grid=FEW, seeds=1).write(tmp_path)
    lines = ended(tmp_path, "fig1")
    # With claims, the means stand above the verdicts.
    means = [place for place, line in enumerate(lines) if line.startswith("standard ")]
    [verdicts] = [n for n, line in enumerate(lines) if line.startswith("experiment ")]
    assert means
    assert max(means) < verdicts
    assert OWN_GRID in lines
    page, figures = tmp_path / "report.html", tmp_path / "figures"
    assert f"    {page}" in lines
    assert f"  {figures / 'fig1.png'}" in lines
    assert f"  {figures / 'grid.png'}" not in lines
    assert shown(page) == ["fig1", "grid"]
    grid(tmp_path, 2, 3, 5)
    ended(tmp_path, "grid")
    assert shown(page) == ["grid", "fig1"]


def test_without_a_finished_run_no_figure_is_drawn_or_named(tmp_path):
    figure1(grid=FEW, seeds=1, done=lambda arm, model, seed: False).write(tmp_path)
    lines = ended(tmp_path, "fig1")
    assert "Tables:" in lines
    assert not any("figures" in line or line.startswith("Figures") for line in lines)
    assert not (tmp_path / "figures" / "fig1.png").exists()


def test_what_is_missing_is_said_once(tmp_path):
    sweep = by_hand({"model.heads": [2, 3]})
    sweep.points[0]["run"] = "another-run"
    sweep.write(tmp_path)
    assert "\n".join(ended(tmp_path, "grid")).count("1 of 4 runs missing") == 1


def test_another_experiment_that_cannot_be_judged_keeps_no_sweep_from_its_page(
    tmp_path,
):
    broken = figure1(grid=FEW, seeds=1)
    broken.claims = ("no_such_claim",)
    broken.write(tmp_path)
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


def test_a_figure_is_drawn_again_after_another_plan_asked_about_its_runs(tmp_path):
    """Then the claims share the error, and the caption names a higher confidence."""
    drawn = set()
    for name, claim in (
        ("first", "fixed_keeps_improving"),
        ("other", "saves_parameters"),
    ):
        asked = figure1()
        asked.name, asked.claims = name, (claim,)
        for point in asked.points:
            point["experiment"] = name
        asked.write(tmp_path)
        ended(tmp_path, "first")
        drawn.add((tmp_path / "figures" / "first.svg").read_bytes())
    assert len(drawn) == 2


def mirrored(sweep, experiment, mode="offline"):
    """Return the sweep with runs that are mirrored to W&B."""
    for record in sweep.records.values():
        record["config"]["logger"] = {"name": "wandb", "mode": mode}
        record["names"] = {**record["names"], "experiment": experiment}
    return sweep


def test_the_last_lines_suggest_what_works_with_the_logger_of_the_newest_sweep(
    tmp_path,
):
    grid(tmp_path)
    wandb, option = tmp_path / "wandb", f"--outputs {tmp_path}"
    offline = wandb / "offline-run-20250101_000000-"
    Path(f"{offline}of-another-sweep").mkdir(parents=True)
    assert f"    python -m sweeper collect {option}" in ended(tmp_path, "grid")
    online = mirrored(figure1(grid=FEW, seeds=1), "fig1", "online")
    online.write(tmp_path)
    assert f"    python -m sweeper dashboard fig1 {option}" in ended(tmp_path, "fig1")
    Path(f"{offline}{next(iter(online.records))}").mkdir()
    assert f"    wandb sync {wandb}" in ended(tmp_path, "fig1")
    assert f"    python -m sweeper collect grid {option}" in ended(tmp_path, "grid")


def test_the_last_lines_say_in_which_groups_of_wandb_the_runs_are(tmp_path):
    first = mirrored(by_hand({"model.heads": [2, 3]}), "mine")
    first.name = "mine"
    first.points = [{**one, "experiment": "mine"} for one in first.points]
    first.write(tmp_path)
    mirrored(by_hand({"model.heads": [2, 3, 5]}), "grid").write(tmp_path)
    total, others = len(RunStore(tmp_path).ids()), len(first.records)
    [line] = [one for one in ended(tmp_path, "grid") if "Weights & Biases: " in one]
    where = f"{total - others} of {total} in the group grid, "
    where += f"{others} in the group mine, which planned them first."
    assert where in line
    assert line.endswith("the tag grid, run python -m sweeper dashboard grid.")
    assert not any("in the group" in line for line in ended(tmp_path, "mine"))


@pytest.fixture
def living(tmp_path, monkeypatch):
    """Return the live page of an unfinished sweep with two slots and a fake clock."""
    figure1(grid=FEW, seeds=2, done=lambda arm, model, seed: seed == 0).write(tmp_path)
    clock = SimpleNamespace(now=1000.0, used=0.0)
    clock.monotonic, clock.thread_time = lambda: clock.now, lambda: clock.used
    monkeypatch.setattr(publish, "time", clock)
    return publish.LivePage(tmp_path, slots=2), clock, tmp_path / "report.html"


def test_the_page_lives_while_a_sweep_trains_and_is_whole_once_it_is_stopped(living):
    def states(page):
        return {run["state"] for run in content_of(page)["runs"].values()}

    results, _, page = living
    results.write()
    assert f'name="refresh" content="{publish.PAGE_S:.0f}"' in page.read_text()
    assert states(page) == {"done", "new"}
    figure1(grid=FEW, seeds=2).write(page.parent)  # the other runs end meanwhile
    with pytest.raises(SystemExit), results:
        raise SystemExit(130)
    assert 'name="refresh"' not in page.read_text()
    assert states(page) == {"done"}


def test_the_page_takes_a_share_of_the_time_of_the_runs_and_no_more(
    living, monkeypatch
):
    results, clock, _ = living
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
    sweep = figure1(grid=FEW, seeds=5)
    next(iter(sweep.results.values()))["metrics"][sweep.metric] = value
    sweep.claims = ["standard_worsens_beyond", "wins_at_equal_size", "saves_parameters"]
    tables, verdicts = collect_and_judge(sweep.write(tmp_path), None)
    printed = io.StringIO()
    print_tables(Console(file=printed), tmp_path, tables, verdicts)
    assert "saves_parameters" in printed.getvalue()
    pdf, *_ = write_figures(tmp_path, tables)
    page = write_report(tmp_path, tables, verdicts)
    assert min(pdf.stat().st_size, page.stat().st_size) > 0


def price(outputs):
    """Return the expected cost of the only claim, as the terminal shows it."""
    printed = io.StringIO()
    print_prices(Console(file=printed, width=200), collect(outputs))
    [_, line] = printed.getvalue().splitlines()
    return line


def fixed_heads(seeds):
    """Return a sweep of fixed heads. Seeds vary by 1 %, and each run should take an hour."""
    made = Sweep(claims=("fixed_keeps_improving",))
    for heads in (2, 4, 8):
        own = [1 + 0.01 * ((5 * seed + heads) % 7 - 3) for seed in range(3)]
        values = {n: (44 - heads) * v if n < seeds else None for n, v in enumerate(own)}
        made.add("fixed", {"model.heads": heads}, Model(64, heads, 16), values)
    return made


def test_without_two_seeds_no_price_is_made_up(tmp_path):
    said = price(fixed_heads(1).write(tmp_path))
    assert "Every point needs at least 3 seeds" in said


def test_a_price_is_in_seeds_runs_and_device_time(tmp_path):
    said = price(fixed_heads(2).write(tmp_path))
    [(seeds, runs, took)] = re.findall(r"(\d+) seeds per point: (\d+) runs, (.+)", said)
    assert int(seeds) > 3
    assert int(runs) == 3 * (int(seeds) - 2)
    assert took.strip() == clock(int(runs) * 12.5)
