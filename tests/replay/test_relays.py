"""Who waits for whom where the host transfers from or to a root: by hand, of six ranks."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pytest

from traceweave.replay.relays import relayed


@pytest.mark.parametrize(
    ("is_tree", "waits"),
    [
        # from rank 4 on: it sends to 5, 0 and 2, rank 5 to 1 and 3
        (1, {(5, 4), (0, 4), (2, 4), (1, 4), (3, 4), (1, 5), (3, 5)}
            | {(4, 5), (4, 0), (4, 2), (5, 1), (5, 3)}),
        (0, {pair for other in (0, 1, 2, 3, 5) for pair in ((4, other), (other, 4))}),
    ],
)  # fmt: skip
def test_both_ends_of_a_message_wait(is_tree: int, waits: Collection[tuple[int, int]]) -> None:
    instances = {"group_id": np.array([7]), "root": np.array([4]), "is_tree": np.array([is_tree])}
    ranks = np.arange(6)
    other, waiting = relayed(np.zeros(6, np.int64), ranks, instances, {7: ranks})
    assert {*zip(waiting.tolist(), other.tolist(), strict=True)} == waits
    assert not len(relayed(np.zeros(6, np.int64), ranks, instances, {})[0])
    assert not len(relayed(np.zeros(6, np.int64), ranks, instances, {7: ranks[:5]})[0])
