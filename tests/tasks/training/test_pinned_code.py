"""Jobs that wait while the code is edited, and runs that are continued after it was."""

import pytest

from sweeper.run.backends.ray import Place
from sweeper.store.code import Code, differing, loaded_code, pin, state_of
from sweeper.store.runs import lineage
from tasks.training import machine
from tasks.training.module import TrainingModule
from tests.tasks.jobs import at_call, freeze, run_job, science, terminate_self


@pytest.fixture
def program(tmp_path):
    """A copy of the code that jobs need, to be edited."""
    for name, source in Code.read().files.items():
        path = tmp_path / "program" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(source)
    return tmp_path / "program"


def code_of(run):
    """What the only attempt at a run says of its code."""
    [attempt] = run.attempts()
    return state_of(attempt.info())


def test_a_job_that_waited_while_the_code_was_edited_computes_what_it_would_have(program, outputs):
    undisturbed, waited, later = (freeze(outputs, {}, name) for name in ("one", "two", "three"))
    first = Place(str(waited.path), str(pin(outputs, Code.read(program), [])))
    path = program / "models" / "initialisation.py"
    path.write_text(path.read_text().replace("xavier_uniform_", "xavier_normal_"))
    second = Place(str(later.path), str(pin(outputs, Code.read(program), [])))
    assert (run_job(undisturbed), first.work(), second.work()) == (0, 0, 0)
    assert science(waited) == science(undisturbed)
    assert differing([code_of(waited), code_of(undisturbed)]) == []
    assert science(later)["weights_sha256"] != science(waited)["weights_sha256"]
    assert differing([code_of(waited), code_of(later)]) == ["models"]


def test_a_run_that_is_continued_with_other_code_says_so_and_names_both(outputs, monkeypatch):
    run = freeze(outputs)
    stop = lambda: at_call(TrainingModule, "training_step", 7, terminate_self)  # noqa: E731
    assert run_job(run, stop) == 75
    now = loaded_code()
    edited = Code(now.root, {**now.files, "models/block.py": b"edited"})
    monkeypatch.setattr(machine, "loaded_code", lambda: edited)
    assert run_job(run) == 0
    said = run.attempts()[-1].log_path.read_text()
    assert "another state of the code" in said
    assert "models changed since" in said
    assert differing([state_of(one) for one in lineage(run, 2)]) == ["models"]
