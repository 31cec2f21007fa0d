"""Runs trained elsewhere, taken from W&B: the same tables, or a sentence that says why not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas
import pytest

pytest.importorskip("wandb")

from sweeper.results.collect import write_tables
from sweeper.store.mirrored import KEY
from sweeper.store.runs import RunStore
from tests.sweeper.results.wandb.mirrored import command, mirror, sweep
from tests.wandb_answers import ENTITY, Remote, WandbServer
from tests.wandb_server import wandb_server


@pytest.fixture
def server() -> Iterator[WandbServer]:
    with wandb_server() as server:
        yield server


def test_runs_taken_from_there_give_the_same_table(tmp_path: Path, server: WandbServer) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    sweep().write(there)
    mirror(there, server, plan=False)
    assert command(there, "dashboard").code == 0
    done = command(here, "collect", "--from", "wandb", f"{ENTITY}/headroom", "fig1")
    assert done.code == 0
    assert f"{len(sweep().records)} done" in done.out
    for name in ("fig1.csv", "fig1.json", "fig1.claims.json"):
        assert (here / "tables" / name).read_bytes() == (there / "tables" / name).read_bytes()
    assert server.asked.count("Runs") > 1, "one page of runs: paging is not tested"


def test_of_runs_that_are_not_done_there_only_state_and_reason_are_unknown(
    tmp_path: Path, server: WandbServer
) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    made = sweep(unfinished=True)
    made.write(there)
    failed = next(id for id in made.records if id not in made.results)
    RunStore(there).run(failed).claim({}).finish("nan", "the loss is nan at step 7")
    mirror(there, server)
    write_tables(there)
    done = command(here, "collect", "--from", "wandb", f"{ENTITY}/headroom")
    assert "not done there" in done.out
    tables = [pandas.read_csv(folder / "tables" / "fig1.csv") for folder in (there, here)]
    assert not tables[0].equals(tables[1])
    unknown = ["state", "reason"]
    known = [table.drop(columns=unknown).to_csv() for table in tables]
    assert known[0] == known[1]
    done = [table[table["state"] == "done"].to_csv() for table in tables]
    assert done[0] == done[1]


def test_a_run_that_is_here_stays_as_it_is(tmp_path: Path, server: WandbServer) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    sweep().write(there)
    mirror(there, server)
    other = sweep()
    id = next(iter(other.records))
    other.results[id] = {**other.results[id], "seconds": 99.5}
    other.write(here)
    assert command(here, "collect", "--from", "wandb", f"{ENTITY}/headroom").code == 0
    result = RunStore(here).run(id).result()
    assert result is not None
    assert result["seconds"] == 99.5


def test_one_group_alone(tmp_path: Path, server: WandbServer) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    sweep().write(there)
    mirror(there, server)
    foreign, *own = [id for id in server.runs if id != "experiment-fig1"]
    server.runs[foreign].about["groupName"] = "fig3"
    assert command(here, "collect", "--from", "wandb", f"{ENTITY}/headroom/fig1").code == 0
    assert RunStore(here).ids() == sorted(own)


def test_a_changed_text_is_refused_and_costs_only_its_run(
    tmp_path: Path, server: WandbServer
) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    sweep().write(there)
    mirror(there, server)
    forged, *others = sorted(id for id in server.runs if id != "experiment-fig1")
    texts = server.runs[forged].summary[KEY]
    texts["result"] = texts["result"].replace('"seconds": 12.5', '"seconds": 1.5')
    done = command(here, "collect", "--from", "wandb", f"{ENTITY}/headroom")
    assert done.code == 0
    assert f"{forged} cannot be taken from the mirror: its result cannot be used" in done.out
    assert RunStore(here).ids() == others


ASKED_WRONGLY = {
    "other service": (["collect", "--from", "mlflow", "a/b"], "expected wandb"),
    "no project": (["collect", "--from", "wandb", "headroom"], "expected ENTITY/PROJECT"),
    "project not there": (["collect", "--from", "wandb", "someone/nothing"], "refused"),
    "no plan there": (["collect", "--from", "wandb", "someone/bare"], "a project that holds"),
    "nothing planned": (["dashboard"], "expected a folder with a plan"),
}


@pytest.mark.parametrize("case", ASKED_WRONGLY)
def test_what_cannot_be_is_one_sentence(case: str, tmp_path: Path, server: WandbServer) -> None:
    words, expected = ASKED_WRONGLY[case]
    server.runs["bare"] = Remote("bare", "bare")
    code, _, error = command(tmp_path, *words)
    assert code == 2
    assert expected in error
    assert error.startswith("error: ")
    assert error.count("\n") == 1
