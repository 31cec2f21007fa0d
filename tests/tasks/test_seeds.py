"""Random numbers depend only on seeds and counters."""

import numpy as np

from tasks.seeds import Shuffled, derive, permutation


def test_a_seed_for_one_purpose_is_no_seed_for_another():
    derived = {derive(s, "step", n) for s in range(31) for n in range(101)}
    assert len(derived) == 31 * 101
    assert all(0 <= seed < 2**63 for seed in derived)


def test_an_order_is_the_same_in_every_process_and_release():
    # The order of old runs must not change. numpy's compatibility policy guarantees this order.
    assert permutation(11, 0, "epoch", 0).tolist() == [3, 6, 9, 4, 2, 5, 0, 1, 8, 10, 7]
    seeds = [(0, "epoch", 0), (1, "epoch", 0), (0, "epoch", 1)]
    assert len({tuple(permutation(997, *seed)) for seed in seeds}) == 3


def test_each_epoch_holds_every_row_once_however_the_stream_is_cut():
    rows, batch, epochs = 101, 7, 5
    whole = Shuffled(rows, 3).stretch(0, rows * epochs)
    for epoch in whole.reshape(epochs, rows):
        assert sorted(epoch) == list(range(rows))
    stream = Shuffled(rows, 3)
    steps = [
        stream.stretch(start, batch) for start in range(0, rows * epochs - batch, batch)
    ]
    assert np.concatenate(steps).tolist() == whole[: batch * len(steps)].tolist()
