"""Ranks matched by order against one that saw most: those of one host have to agree."""

from __future__ import annotations

import numpy as np
import pytest

from traceweave.matching.by_order import Part, _against_their_host
from traceweave.matching.calls import Calls
from traceweave.matching.coarse_clocks import Line


def _part(rank: int, ahead_ms: float | None) -> Part:
    """A rank whose clock was found to be so far behind the reference's."""
    one = np.full(1, rank, dtype=np.int64)
    calls = Calls(
        **{name: one for name in Calls.__dataclass_fields__ if name != "origin_ns"}, origin_ns=0
    )
    line = None if ahead_ms is None else Line(ahead_ms * 1e6, 0.0, 0.0, 0.0)
    return Part(np.arange(1), calls, line)


# ranks 0 to 3 are of one host, 4 to 7 of another; a step of training takes 118 ms
@pytest.mark.parametrize(
    ("ahead_ms", "against"),
    [
        ([300.0, 300.1, 299.8, 300.5, 7.0, 7.1, 6.9, 7.0], []),
        ([300.0, 300.1, 418.0, 300.5, 7.0, 7.1, 6.9, 125.0], [2, 7]),
        ([300.0, None, 418.0, None, 7.0, None, None, None], [0, 2]),
        ([None, None, None, None, None, None, None, None], []),
    ],
)
def test_who_is_off_most_of_its_host_is_refused(
    ahead_ms: list[float | None], against: list[int]
) -> None:
    parts = [_part(rank, ahead) for rank, ahead in enumerate(ahead_ms)]
    found = _against_their_host(parts, lambda one, other: one // 4 == other // 4)
    assert [int(part.calls.rank[0]) for part in found] == against
    assert _against_their_host(parts, lambda one, other: one == other) == []
