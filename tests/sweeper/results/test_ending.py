"""The end of a sweep: verdicts, what would decide them, and where everything lies."""

import io
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from sweeper import publish
from sweeper.publish import collect_and_judge, print_everything, print_tables
from sweeper.results.collect import collect
from sweeper.results.figures import write_figures
from sweeper.results.judge import verdicts_on
from sweeper.results.report.page import write_report
from sweeper.results.summary import brief, print_prices
from sweeper.store.runs import RunStore
from tests.sweeper.results.finetuned import Finetuned
from tests.sweeper.results.grids import FEW, by_hand, figure1
from tests.sweeper.results.report.reported import content_of
from tests.sweeper.results.synthetic import Model, Sweep


def ended(outputs: Path, *names: str, width: int = 120) -> list[str]:
    """The lines that the end of a sweep of these experiments prints."""
    console = Console(file=io.StringIO(), width=width)
    print_everything(console, outputs, names)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]  # type: ignore[attr-defined]


def test_a_record_that_cannot_be_read_is_told(tmp_path):
    sweep = by_hand({"model.heads": [2, 3]})
    outputs = sweep.write(tmp_path)
    console = Console(file=io.StringIO())
    assert print_everything(console, outputs, [sweep.name])
    run = sorted(sweep.results)[0]
    RunStore(outputs).run(run).attempts()[0].path.joinpath("attempt.json").write_text(
        "{"
    )
    assert not print_everything(console, outputs, [sweep.name])
    assert f"run {run}: " in console.file.getvalue()  # type: ignore[attr-defined]


def test_each_verdict_has_a_line_that_says_what_would_decide_it(tmp_path):
    table = figure1(noise=0.008).table(tmp_path)
    verdicts = {table.name: verdicts_on(table)}
    for width in (80, 120, 200):
        [head, *rows] = [line.plain for line in brief([table], verdicts, width)]
        assert head.split()[:3] == ["experiment", "verdict", "claim"]
        told = {
            line.split()[1]: (line.split()[0], line)
            for line in (row[12:] for row in rows)
        }
        assert list(told) == [verdict.claim for verdict in verdicts[table.name]]
        assert told["fixed_keeps_improving"][0] == "supported"
        assert told["standard_worsens_beyond"][0] == "undecided"
        assert "4 seeds a point: 12 runs, 2:30" in told["standard_worsens_beyond"][1]
        assert all(len(row) <= width for row in rows)


def test_what_a_reader_must_know_has_a_line_that_experiments_share(tmp_path):
    table = figure1(grid=FEW, seeds=1).table(tmp_path)
    rows = [{**row, "code": str(number)} for number, row in enumerate(table.rows)]
    tables = [replace(table, name=name, rows=rows) for name in ("one", "two")]
    [line] = [line.plain for line in brief(tables, {"one": [], "two": []}, 200)]
    assert line == f"one, two: Runs of {len(rows)} versions of the program."


def test_measures_that_agree_share_a_line(tmp_path):
    table = Finetuned("fig2", about={"claims": ["fixed_keeps_improving"]}).table(
        tmp_path
    )
    [_, row] = brief([table], {"fig2": verdicts_on(table)}, 200)
    assert "fixed_keeps_improving" in row.plain


def test_files_are_named_and_the_page_is_of_all_that_was_planned(tmp_path):
    by_hand({"model.heads": [2, 3]}).write(tmp_path)
    lines = ended(tmp_path, "grid")
    assert any(
        line.startswith("grid  ") and "heads=2" in line for line in lines
    )  # no claims: rows
    figure1(grid=FEW, seeds=1).write(tmp_path)
    lines = [line.strip() for line in ended(tmp_path, "fig1")]
    page, figure = tmp_path / "report.html", tmp_path / "figures" / "fig1.png"
    assert {str(page), str(figure)} <= set(lines)
    assert str(tmp_path / "figures" / "grid.png") not in lines
    assert [one["name"] for one in content_of(page)["experiments"]] == ["fig1", "grid"]
    by_hand({"model.heads": [2, 3, 5]}).write(tmp_path)
    ended(tmp_path, "grid")
    assert [one["name"] for one in content_of(page)["experiments"]] == ["grid", "fig1"]


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
    told = [
        line for line in ended(tmp_path, "grid") if "1 of 4 runs is missing" in line
    ]
    assert len(told) == 1


def test_another_experiment_that_cannot_be_judged_keeps_no_sweep_from_its_page(
    tmp_path,
):
    broken = figure1(grid=FEW, seeds=1)
    broken.claims = ("no_such_claim",)
    broken.write(tmp_path)
    by_hand({"model.heads": [2, 3]}).write(tmp_path)
    lines = ended(tmp_path, "grid", width=400)
    assert any("no_such_claim" in line for line in lines)
    assert [
        one["name"] for one in content_of(tmp_path / "report.html")["experiments"]
    ] == ["grid"]


def test_a_figure_is_drawn_again_where_it_is_not_as_drawn_from_its_table_and_only_there(
    tmp_path,
):
    by_hand({"model.heads": [2, 3]}).write(tmp_path)
    ended(tmp_path, "grid")
    figure = tmp_path / "figures" / "grid.svg"
    first = figure.stat().st_mtime_ns, figure.read_bytes()
    ended(tmp_path, "grid")
    assert (figure.stat().st_mtime_ns, figure.read_bytes()) == first
    by_hand({"model.heads": [2, 3, 5]}).write(tmp_path)
    collect_and_judge(tmp_path, None)  # the table is new and its figure is not
    ended(tmp_path, "grid")
    assert (second := figure.read_bytes()) != first[1]
    for damage in (Path.unlink, lambda path: path.write_text("damaged")):
        damage(figure)
        ended(tmp_path, "grid")
        assert figure.read_bytes() == second


@pytest.fixture
def living(tmp_path, monkeypatch):
    """The page of an unfinished sweep, in two slots, with a clock of its own."""
    figure1(grid=FEW, seeds=2, done=lambda arm, model, seed: seed == 0).write(tmp_path)
    clock = SimpleNamespace(now=1000.0, used=0.0)
    clock.monotonic, clock.thread_time = lambda: clock.now, lambda: clock.used
    monkeypatch.setattr(publish, "time", clock)
    return publish.LivePage(tmp_path, slots=2), clock, tmp_path / "report.html"


def mirrored(sweep: Sweep, experiment: str, mode: str = "offline") -> Sweep:
    """The sweep with runs that the experiment trained, and W&B follows."""
    for record in sweep.records.values():
        record["config"]["logger"] = {"name": "wandb", "mode": mode}
        record["names"] = {**record["names"], "experiment": experiment}
    return sweep


def test_the_last_lines_suggest_what_works_with_the_logger_of_the_newest_sweep(
    tmp_path,
):
    by_hand({"model.heads": [2, 3]}).write(tmp_path)
    wandb, option = tmp_path / "wandb", f"--outputs {tmp_path}"
    (wandb / "offline-run-20250101_000000-of-another-sweep").mkdir(parents=True)
    assert f"    python -m sweeper collect {option}" in ended(
        tmp_path, "grid", width=400
    )
    online = mirrored(figure1(grid=FEW, seeds=1), "fig1", "online")
    online.write(tmp_path)
    assert f"    python -m sweeper dashboard fig1 {option}" in ended(
        tmp_path, "fig1", width=400
    )
    (wandb / f"offline-run-20250101_000000-{next(iter(online.records))}").mkdir()
    assert f"    wandb sync {wandb}" in ended(tmp_path, "fig1", width=400)
    assert f"    python -m sweeper collect grid {option}" in ended(
        tmp_path, "grid", width=400
    )


def test_who_has_trained_a_grid_is_not_told_to_train_one(tmp_path):
    by_hand({"model.heads": [2, 3]}).write(tmp_path)
    figure1(grid=FEW, seeds=1).write(tmp_path)
    assert "  Train a grid of your own:" not in ended(tmp_path, "grid")
    assert "  Train a grid of your own:" in ended(tmp_path, "fig1")


def test_the_last_lines_say_in_which_groups_of_wandb_the_runs_are(tmp_path):
    first = mirrored(by_hand({"model.heads": [2, 3]}), "mine")
    first.name, first.points = (
        "mine",
        [{**one, "experiment": "mine"} for one in first.points],
    )
    first.write(tmp_path)
    mirrored(by_hand({"model.heads": [2, 3, 5]}), "grid").write(tmp_path)
    own = len(RunStore(tmp_path).ids()) - len(first.records)
    [line] = [
        line
        for line in ended(tmp_path, "grid", width=400)
        if "Weights & Biases: " in line
    ]
    where = f"{own} of its {own + len(first.records)} runs in the group of its name, "
    assert (
        f"{where}{len(first.records)} in the group mine, which planned them first."
        in line
    )
    assert line.endswith("the tag grid after python -m sweeper dashboard grid.")
    assert not any(
        "in the group" in line for line in ended(tmp_path, "mine", width=400)
    )


def test_the_page_lives_while_a_sweep_trains_and_is_whole_once_it_is_stopped(living):
    results, _, page = living
    results.write()
    assert f'name="refresh" content="{publish.PAGE_S:.0f}"' in page.read_text()
    assert {run["state"] for run in content_of(page)["runs"].values()} == {
        "done",
        "new",
    }
    figure1(grid=FEW, seeds=2).write(page.parent)  # the other runs end meanwhile
    with pytest.raises(SystemExit), results:
        raise SystemExit(130)
    assert 'name="refresh"' not in page.read_text()
    assert {run["state"] for run in content_of(page)["runs"].values()} == {"done"}


def test_the_page_takes_a_share_of_the_time_of_the_runs_and_no_more(
    living, monkeypatch
):
    results, clock, _ = living
    written = []
    monkeypatch.setattr(results, "write", lambda: written.append(clock.now))
    write = type(results).write
    clock.thread_time = iter([0.0, 3.0]).__next__
    write(results)
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
    write_figures(tmp_path, tables)
    assert (tmp_path / "figures" / "fig1.pdf").stat().st_size > 0
    assert write_report(tmp_path, tables, verdicts).stat().st_size > 0


def prices(outputs, width=200):
    """What is printed of the price of each claim."""
    printed = io.StringIO()
    print_prices(Console(file=printed, width=width), collect(outputs))
    return printed.getvalue()


def fixed_heads(seeds):
    """Fixed heads whose seeds scatter by 1 %; an hour is planned for each run."""
    made = Sweep(claims=("fixed_keeps_improving",))
    for heads in (2, 4, 8):
        truth = 44 - heads
        values = {
            seed: truth * (1 + 0.01 * ((5 * seed + heads) % 7 - 3))
            if seed < seeds
            else None
            for seed in range(3)
        }
        made.add("fixed", {"model.heads": heads}, Model(64, heads, 16), values)
    return made


def test_without_two_seeds_no_price_is_made_up(tmp_path):
    said = prices(fixed_heads(1).write(tmp_path))
    assert re.search("fixed_keeps_improving +undecided +unknown before two seeds", said)


def test_a_price_is_in_seeds_runs_and_device_hours(tmp_path):
    said = prices(fixed_heads(2).write(tmp_path))
    [(seeds, runs, hours)] = re.findall(r"undecided +(\d+) / (\d+) / (\S+)", said)
    assert int(seeds) > 3
    assert int(runs) == 3 * (int(seeds) - 2)
    assert float(hours) == pytest.approx(int(runs) * 12.5 / 3600, rel=0.05)


def test_prices_name_the_claim_beside_a_long_decision_at_80_letters(tmp_path):
    sweep = figure1(grid=FEW, seeds=8)
    sweep.claims = ["wins_at_equal_size"]
    sweep.margin = {sweep.metric: {"size": "900 %", "reason": "All is within it."}}
    said = prices(sweep.write(tmp_path), width=80)
    assert re.search(r"^wins_at_equ\w* +no difference", said, re.MULTILINE)
