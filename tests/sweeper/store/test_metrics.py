"""If a line of metrics is damaged, only its own row is lost."""

import json
import math
import os

import pytest

from sweeper.store.metrics import MetricsWriter, read_metrics

ROWS = [
    {"step": 7, "train/loss": 5.25, "phase": "train"},
    {
        "step": 11,
        "train/loss": 1e-17,
        "note": 'a "quoted" word, {"step": 3} and ünïcode\n',
    },
    {"step": 13, "validation/loss": 3.0, "best": True, "none": None},
    {"step": 17, '\n{"step": 4, "train/loss": 0.0}\n': 2},
]
NEXT = {"step": 19, "train/loss": 1.5}


def written(path, rows):
    with MetricsWriter(path) as writer:
        for row in rows:
            writer.write(row)
    return path.read_bytes()


def line_spans(data):
    """Return the positions of the first byte and of the line end of each line."""
    ends = [at for at, byte in enumerate(data) if byte == ord("\n")]
    return [*zip((0, *(end + 1 for end in ends)), ends, strict=False)]


def test_truncated_at_every_byte_only_the_cut_line_is_lost_and_never_the_next(tmp_path):
    path = tmp_path / "m"
    assert read_metrics(path) == []
    data = written(path, ROWS)
    for length in range(len(data) + 1):
        path.write_bytes(data[:length])
        whole = [
            row
            for row, (_, end) in zip(ROWS, line_spans(data), strict=True)
            if end <= length
        ]
        assert read_metrics(path) == whole
        written(path, [NEXT])
        assert read_metrics(path) == [*whole, NEXT]


def test_with_any_byte_changed_only_its_line_is_lost_and_no_wrong_row_is_read(tmp_path):
    path = tmp_path / "m"
    data = written(path, ROWS)
    spans = line_spans(data)
    for at, old in enumerate(data):
        others = [  # without its line end, the next row is lost, too
            row for row, (a, b) in zip(ROWS, spans, strict=True) if not a - 1 <= at <= b
        ]
        for new in {old ^ 0x01, old ^ 0x80, *b'\n\0"'} - {old}:
            path.write_bytes(data[:at] + bytes([new]) + data[at + 1 :])
            assert read_metrics(path) == others


def test_a_write_that_fails_half_way_does_not_cost_the_next_row(tmp_path, monkeypatch):
    real, calls = os.write, []

    def full_disk(descriptor, data):
        calls.append(data)
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        return real(descriptor, data[:5])

    with MetricsWriter(tmp_path / "m") as writer:
        writer.write(ROWS[0])
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full_disk)
            with pytest.raises(OSError, match="No space left"):
                writer.write(ROWS[1])
        writer.write(NEXT)
    assert read_metrics(tmp_path / "m") == [ROWS[0], NEXT]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf], ids=str)
def test_floats_that_json_lacks_come_back_as_floats(tmp_path, value):
    data = written(tmp_path / "m", [{"step": 3, "train/loss": value}])
    (row,) = read_metrics(tmp_path / "m")
    assert str(row["train/loss"]) == str(value)
    assert isinstance(row["train/loss"], float)
    assert json.loads(data)["train/loss"] == str(value)
    assert data.startswith(b'{"step": 3, ')
