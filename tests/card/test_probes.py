"""The card says what CUDA says: of types without a kernel, of order, of what the host waits for."""

import pytest

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", ["svdvals, half", "qr, half"])
def test_a_kernel_that_lacks_a_type_is_an_error(probes, name):
    assert "not implemented for half precision" in probes[name]["error"]
    assert probes["svdvals, single"] == {"error": None, "waits": 0}


def test_what_cannot_be_deterministic_is_an_error(probes):
    assert "does not have a deterministic implementation" in probes["running sum"]["error"]
    assert probes["running count"] == {"error": None, "waits": 0}


@pytest.mark.parametrize(
    "name",
    ["item", "list", "copy to the host", "copy to the card", "copy that waits for its memory"],
)
def test_the_host_waits_once(probes, name):
    assert probes[name] == {"error": None, "waits": 1}


@pytest.mark.parametrize("name", ["sum", "pinned copy"])
def test_the_host_waits_for_nothing(probes, name):
    assert probes[name] == {"error": None, "waits": 0}


def test_what_depends_on_content_waits(probes):
    assert probes["mask"]["waits"] == 1
