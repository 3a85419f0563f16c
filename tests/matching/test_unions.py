"""Which proven sets may be parts of one group."""

from dataclasses import fields

import numpy as np

from traceweave.matching.calls import Calls
from traceweave.matching.common_time import CommonTime
from traceweave.matching.groups import Job
from traceweave.matching.groups_by_evidence import Search
from traceweave.matching.strands import Strand, strands_of

CALLS = 40


def searched(ranks: list[int], later_ns: list[int]) -> tuple[Search, list[Strand]]:
    """Strands of these ranks, whose calls end so much later than those of the first, within 2 us:
    a rank that comes twice has two streams."""
    rng = np.random.default_rng(2)
    moment = np.cumsum(rng.integers(8_000_000, 12_000_000, CALLS))[:, None] + np.array(later_ns)
    end = moment + rng.integers(-2_000, 2_000, moment.shape)
    start = moment - 100_000 - rng.integers(0, 50_000, moment.shape)
    rank = np.repeat(ranks, CALLS)
    stream = np.repeat([ranks[:n].count(one) for n, one in enumerate(ranks)], CALLS)
    order = np.lexsort((start.T.ravel(), rank))
    none, zero = np.full(len(rank), -1), np.zeros(len(rank), dtype=np.int64)
    numbers = {f.name: none for f in fields(Calls)} | {
        "rank": rank[order], "op": zero, "computing": zero > 0, "start": start.T.ravel()[order],
        "end": end.T.ravel()[order],
    }  # fmt: skip
    calls = Calls(**numbers | {"origin_ns": 0})  # type: ignore[arg-type]
    time = CommonTime(calls, none, lambda _one, _other: False)
    search = Search(time, Job(ranks=(0, 1, 2, 3), size=4), lambda _one, _other: True)
    strands = strands_of(calls, np.arange(len(rank)), stream[order], -1, None)
    return search, strands


def test_sets_without_a_common_rank_may_be_one_group() -> None:
    search, (zero, one, two, three) = searched([0, 1, 2, 3], [0, 0, 0, 0])
    union = search._union(search._around(zero, [one]), search._around(two, [three]))
    assert union is not None
    assert union.ranks() == [0, 1, 2, 3]


# one call of a rank in two groups always follows the other, so that all four strands run as one's
def test_groups_that_share_a_rank_are_never_one() -> None:
    search, (zero, one, again, three) = searched([0, 1, 1, 3], [0, 0, 300_000, 300_000])
    tensor, data = search._around(zero, [one]), search._around(again, [three])
    assert (tensor.ranks(), data.ranks()) == ([0, 1], [1, 3])
    assert search.aligner.align(again, zero) is not None
    assert search.aligner.align(three, zero) is not None
    assert search._union(tensor, data) is None
    assert search._union(data, tensor) is None
