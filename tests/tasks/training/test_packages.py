"""An attempt says which packages of other people its run is made of."""

from tasks.training.machine import code_of
from tests.tasks.jobs import config, freeze, run_job

VARIANT = """
from models.attention.multi_head import MultiHeadAttention
class Mine(MultiHeadAttention): ...
"""


def test_a_run_of_our_own_things_names_none():
    assert "packages" not in code_of(config())


def test_an_attempt_records_the_package_of_its_attention(installed):
    installed("mine", VARIANT, {"headroom.attention": "mine = mine"})
    changes = {"model.attention": {"name": "mine"}, "trainer.steps": 3}
    run = freeze(installed.folder / "outputs", changes)
    assert run_job(run) == 0
    [made] = run.attempts()[0].info()["packages"]
    assert (made["package"], made["version"]) == ("mine", "1.2.3")
    assert [made] == code_of(config(changes))["packages"]
