"""exchanges: how unevenly exchanges of experts divide what they move."""

import json

import pytest

from tests.analyses.builders import Builder, found_by, rows, told
from tests.conftest import Recorded
from tests.marks import first_at_once, nightly

MS = 1_000_000


def _exchange(build: Builder, splits: dict[int, list[int] | None]) -> None:
    """An all_to_all of three ranks with these elements of 1 byte for each; the last comes at 40."""
    ops = {}
    for rank, parts in splits.items():
        build.rank(rank)
        args = {"In msg nelems": sum(parts or [30]), "Out msg nelems": sum(parts or [30])}
        args |= {"In split size": str(parts)} if parts else {}
        at = (10 * rank, 100)
        ops[rank] = build.gpu(rank, at, "communication", "SendRecv", args=json.dumps(args))
    build.group(0, list(splits))
    each = {rank: {"gpu_op_id": op, "bytes": sum(splits[rank] or [30])} for rank, op in ops.items()}
    build.collective({rank: (10 * rank, 100) for rank in splits}, "all_to_all", each=each)


def test_the_busiest_rank_bounds_it(build: Builder) -> None:
    # rank 2 receives 40 and 20, and sends 6; all send 40 + 5, 20 + 1 and 6: 72, 24 if it were even
    _exchange(build, {0: [7, 5, 40], 1: [1, 9, 20], 2: [2, 4, 8]})
    (row,) = rows(build.con, "exchanges")
    assert (row["ranks"], row["bytes"], row["even_bytes"]) == (3, 72, 24)
    assert (row["peak_rank"], row["peak_bytes"], row["peak_is"]) == (2, 60, "receives")
    assert row["peak_to_mean"] == pytest.approx(2.5)
    assert (row["heaviest_from"], row["heaviest_to"], row["heaviest_bytes"]) == (0, 2, 40)
    # from 20, when the last begins, to 100
    assert (row["transfer_ns"], row["even_transfer_ns"], row["uneven_ns"]) == (80, 32, 48)


def test_an_even_one_costs_nothing(build: Builder) -> None:
    _exchange(build, {rank: [10, 10, 10] for rank in range(3)})
    assert told(build.con, "exchanges", "peak_to_mean uneven_ns") == [(1, 0)]


def test_without_all_split_sizes_nothing_is_said(build: Builder) -> None:
    _exchange(build, {0: [7, 5, 40], 1: [1, 9, 20], 2: None})
    assert rows(build.con, "exchanges") == []


@first_at_once()
@pytest.mark.parametrize("scale", [1 << 16, 1])
def test_the_finding_costs_what_even_parts_would_gain(build: Builder, scale: int) -> None:
    """Rank 2 has 60 of 72 parts, 24 if it were even: of 8 ms of transfer 4.8 are for nothing."""
    ops, splits = {}, {0: [7, 5, 40], 1: [1, 9, 20], 2: [2, 4, 8]}
    for rank, parts in splits.items():
        build.rank(rank)
        build.step(rank, 1, (0, 20 * MS), (0, 20 * MS))
        sizes = [scale * part for part in parts]
        args = {"In msg nelems": sum(sizes), "Out msg nelems": sum(sizes)}
        args |= {"In split size": str(sizes)}
        at = (rank * MS, 10 * MS)
        text = json.dumps(args)
        ops[rank] = build.gpu(rank, at, "communication", "SendRecv", 20, step=1, args=text)
        build.gpu(rank, (10 * MS, 20 * MS), step=1)
    build.group(0, list(splits))
    each = {rank: {"gpu_op_id": op, "bytes": scale * sum(splits[rank])} for rank, op in ops.items()}
    at_rank = {rank: (rank * MS, 10 * MS) for rank in splits}
    build.collective(at_rank, "all_to_all", step=1, each=each)
    found = found_by(build.con, "uneven_exchange")
    if scale == 1:  # 60 bytes are all latency
        assert found == {}
        return
    row = found["uneven_exchange"]
    assert (row["ranks"], row["bound_ns"]) == ([2], pytest.approx(4.8 * MS))
    assert row["scenario"] == "op=all_to_all group=0 kind=transfer times=0.4"
    assert row["title"] == "all_to_all waits for rank 2, which has 2.5 times the mean"


@nightly
def test_experts_of_rank_3_get_most(recorded: Recorded) -> None:
    found = recorded("cases/moe").exchanges()
    # tokens go to rank 3 (6963200 + 6144000 + 5734400 elements of 2 bytes), and come back from it
    assert len(found) == 10
    assert set(found["peak_rank"]) == {3}
    assert set(found["peak_bytes"]) == {2 * (6963200 + 6144000 + 5734400)}
    assert sorted(found["peak_is"]) == ["receives"] * 5 + ["sends"] * 5
    assert found["peak_to_mean"].to_list() == pytest.approx([37683200 * 4 / 52019200] * 10)
