from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import traceweave
from tests import simulated_runs
from tests.analyses.builders import Builder, rows, told
from tests.conftest import Recorded
from tests.marks import first_at_once, nightly
from traceweave_simulator import Config, simulate, write_kineto

NAMES = (
    "op", "group_id", "ranks", "bytes", "instances", "measured", "transfer_p50_ns",
    "transfer_best_ns", "algbw_p50_gbps", "algbw_best_gbps", "busbw_p50_gbps", "busbw_best_gbps",
    "unresolved", "slow", "transfer_min_p50_ns", "busbw_free_p50_gbps", "peer_ratio",
    "incomplete", "ranks_seen", "bus_factor", "algorithm", "protocol", "note",
    "buffered", "link", "via", "peak_gbps", "peak_share",
)  # fmt: skip


def _group(
    build: Builder, ranks: list[int], residual_ns: int | None = 0, group_id: int = 0
) -> None:
    build.group(group_id, ranks)
    for rank in ranks:
        build.rank(rank, residual_ns=residual_ns)


def _transfers(build: Builder, lengths: list[int], **values: Any) -> None:
    # rank 0 waits 1000 ns for rank 1; the transfer begins when rank 1 does
    for number, length in enumerate(lengths):
        at = number * 100_000
        end = at + 1000 + length
        build.collective({0: (at, end), 1: (at + 1000, end)}, **values)


def test_bandwidth_is_taken_over_the_transfer_without_the_wait(build: Builder) -> None:
    _group(build, [0, 1])
    _transfers(build, [400, 800, 5000], bytes_=4000)
    # 4000 bytes in 800 ns: 5 GB/s; the bus factor of an all-reduce on two ranks is 1
    want = (
        "all_reduce", 0, 2, 4000, 3, 3, 800, 400, 5.0, 10.0, 5.0, 10.0, 0, 1, 800, 5.0, None,
        0, 2, 1.0, None, None, None, 0, None, None, None, None,
    )  # fmt: skip
    assert rows(build.con, "bandwidth") == [dict(zip(NAMES, want, strict=True))]


@first_at_once(2)
@pytest.mark.parametrize(
    ("op", "factor"),
    [
        ("all_reduce", 1.5), ("all_gather", 0.75), ("reduce_scatter", 0.75), ("all_to_all", 0.75),
        ("gather", 0.75), ("scatter", 0.75), ("broadcast", 1.0), ("reduce", 1.0), ("unknown", None),
    ],
)  # fmt: skip
def test_the_factors_are_those_of_nccl_tests(build: Builder, op: str, factor: float | None) -> None:
    _group(build, [0, 1, 2, 3])
    _transfers(build, [1000], bytes_=2000, op=op)
    (row,) = rows(build.con, "bandwidth")
    assert row["algbw_p50_gbps"] == 2
    assert row["busbw_p50_gbps"] == (None if factor is None else pytest.approx(2 * factor))
    assert str(row["note"]).startswith("no bus factor: ") == (factor is None)


@nightly
def test_a_send_with_its_recv_has_the_factor_one(build: Builder) -> None:
    _group(build, [0, 1, 2])
    build.collective({0: (0, 500), 1: (100, 500)}, op="send", bytes_=800)
    build.con.execute("UPDATE base.collective_calls SET op = 'recv' WHERE rank = 1")
    assert told(build.con, "bandwidth", "op ranks busbw_p50_gbps") == [("send_recv", 2, 2.0)]


def test_transfers_below_the_resolution_of_the_clocks_give_no_bandwidth(build: Builder) -> None:
    _group(build, [0, 1], residual_ns=600)
    _transfers(build, [400, 500, 800], bytes_=4000)
    (row,) = rows(build.con, "bandwidth")
    assert (row["unresolved"], row["transfer_p50_ns"], row["transfer_best_ns"]) == (2, 500, 800)
    assert (row["algbw_p50_gbps"], row["busbw_p50_gbps"]) == (None, None)
    assert row["note"] == "at least half of the transfers are below the clock resolution"
    # the clock-free number stays
    assert row["busbw_free_p50_gbps"] == 8.0


def test_what_cannot_be_computed_says_why(build: Builder) -> None:
    _group(build, [0, 1])
    _transfers(build, [400], bytes_=None)
    build.collective({0: (500_000, 500_900)}, bytes_=64)
    assert told(build.con, "bandwidth", "bytes measured transfer_p50_ns busbw_p50_gbps note") == [
        (64, 0, None, None, "seen on one rank only: waiting and transfer cannot be separated"),
        (None, 1, 400, None, "the trace does not say how many bytes"),
    ]


def test_where_ranks_are_missing_the_transfer_may_be_waiting_for_them(build: Builder) -> None:
    # ranks 2 and 3 of the group were not recorded; one of them may be why 4000 ns pass
    build.group(0, [0, 1, 2, 3])
    build.ranks(2)
    build.collective({0: (0, 5000), 1: (1000, 5000)}, bytes_=8000)
    (row,) = rows(build.con, "bandwidth")
    assert (row["transfer_p50_ns"], row["algbw_p50_gbps"]) == (4000, 2.0)
    assert (row["measured"], row["incomplete"], row["ranks_seen"]) == (1, 1, 2)
    assert (
        row["note"] == "2 of 4 ranks not seen: transfer is an upper bound, bandwidth a lower bound"
    )
    # of operations that all ranks show beside one that they do not, only that one is in doubt
    for rank in (2, 3):
        build.rank(rank)
    for at in (10_000, 20_000):
        build.collective(dict.fromkeys(range(4), (at, at + 4000)), bytes_=8000)
    (row,) = rows(build.con, "bandwidth")
    assert (row["measured"], row["incomplete"], row["ranks_seen"]) == (3, 1, 2)
    assert row["note"] == "1 of 3 lack ranks: waiting for them counts as transfer"


def test_a_group_of_unknown_size_lacks_nobody(build: Builder) -> None:
    _group(build, [0, 1])
    build.con.execute("UPDATE groups SET size = NULL")
    _transfers(build, [400], bytes_=4000)
    (row,) = rows(build.con, "bandwidth")
    assert (row["ranks"], row["incomplete"], row["ranks_seen"]) == (None, 0, 2)
    assert row["note"] == (
        "no bus factor: nccl-tests does not define the operation, or the group is unknown"
    )


@nightly
def test_a_straggler_that_was_not_recorded_makes_transfers_look_slow(
    simulated_database: Callable[[Config], Path], tmp_path: Path
) -> None:
    config = simulated_runs.SLOW_GPU
    write_kineto(simulate(config), tmp_path)
    assert set(config.straggler) == {2}
    traceweave.ingest([tmp_path / f"rank{n}.json.gz" for n in (0, 1)], tmp_path / "two.duckdb")
    found = {}
    for name, path in (("all", simulated_database(config)), ("two", tmp_path / "two.duckdb")):
        with traceweave.open(path) as run:
            found[name] = [run.analyze(asked) for asked in ("bandwidth", "alpha_beta", "tails")]
            instances = run.sql("SELECT transfer_ns, algbw_gbps FROM collective_instances")
        assert instances.notna().all(axis=None)
    whole, part = found["all"][0].set_index("bytes"), found["two"][0].set_index("bytes")
    largest = int(whole.index.max())
    want = config.alpha_ns + largest * 1.5 / config.beta_gbps
    assert abs(whole["transfer_p50_ns"][largest] - want) <= 2
    assert part["transfer_p50_ns"][largest] > 2 * want
    notes = [set(rows_["note"].dropna()) for rows_ in found["two"]]
    waiting = "2 of 4 ranks not seen: waiting for them counts as transfer"
    assert notes == [
        {"2 of 4 ranks not seen: transfer is an upper bound, bandwidth a lower bound"},
        {waiting}, {waiting},
    ]  # fmt: skip
    assert [rows_["note"].notna().any() for rows_ in found["all"]] == [False] * 3


def test_a_slow_group_stands_out_among_its_peers(build: Builder) -> None:
    for group_id, length in enumerate((100, 100, 300)):
        ranks = [2 * group_id, 2 * group_id + 1]
        _group(build, ranks, group_id=group_id)
        build.collective(dict.fromkeys(ranks, (0, length)), group_id=group_id)
    assert [row["peer_ratio"] for row in rows(build.con, "bandwidth")] == [1.0, 1.0, 3.0]


@nightly
def test_real_gpus_reach_what_their_links_allow(recorded: Recorded) -> None:
    # 8 A100 with NVLink 3 move at most 300 GB/s each way
    got = recorded("kineto/megatron_tp8").bandwidth().set_index("bytes")
    assert 150 < got["busbw_p50_gbps"][67_108_864] < 300
    assert got["busbw_free_p50_gbps"][67_108_864] == pytest.approx(
        got["busbw_p50_gbps"][67_108_864], rel=0.05
    )


PEAK = {"link": "intra-node", "via": "NVLink 4", "link_gbps": 450.0}


def peaks(build: Builder) -> list[tuple[Any, ...]]:
    return [(r["op"], r["peak_gbps"], r["peak_share"]) for r in rows(build.con, "bandwidth")]


def test_bandwidth_is_held_to_what_the_link_of_its_group_has(build: Builder) -> None:
    build.group(0, [0, 1, 2, 3], **PEAK)
    build.ranks(4)
    _transfers(build, [1000], bytes_=200_000)
    # 200 GB/s, times 2 * 3 / 4: 300 of 450
    assert peaks(build) == [("all_reduce", 450, pytest.approx(300 / 450))]


@first_at_once()
@pytest.mark.parametrize(
    "algorithm", ["NVLS", "NVLS_TREE", "COLLNET_DIRECT", "SYMMETRIC AllReduce_AGxLLMC_R_STMC"]
)
def test_what_switches_reduce_is_held_to_no_ring(build: Builder, algorithm: str) -> None:
    build.group(0, [0, 1], **PEAK)
    build.ranks(2)
    _transfers(build, [400], bytes_=400_000)
    _log(build, "all_reduce", 400_000, algorithm)
    [row] = rows(build.con, "bandwidth")
    assert (row["busbw_p50_gbps"], row["peak_gbps"], row["peak_share"]) == (1000, None, None)
    assert row["note"] == "switches reduce (NVLS or SHARP): no peak of a ring holds"


def test_a_kernel_whose_name_says_multicast_is_held_to_no_ring(build: Builder) -> None:
    build.group(0, [0, 1], **PEAK)
    for rank in (0, 1):
        build.rank(rank)
        build.gpu(
            rank, (0, 400), "communication", "ncclSymDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_bf16"
        )
    build.collective({0: (0, 400), 1: (0, 400)}, bytes_=400_000)
    build.con.execute(
        "UPDATE base.collective_calls AS k SET gpu_op_id = g.op_id FROM base.gpu_ops AS g"
        " WHERE g.rank = k.rank"
    )
    assert peaks(build) == [("all_reduce", None, None)]


def test_an_exchange_over_two_kinds_of_link_has_no_peak(build: Builder) -> None:
    build.group(0, [0, 1, 2, 3], link="mixed", via="IB", link_gbps=200.0)
    build.ranks(4)
    _transfers(build, [1000], bytes_=4000, op="all_to_all")
    _transfers(build, [1000], bytes_=4000, op="all_gather")
    assert peaks(build) == [
        ("all_gather", 200, pytest.approx(3 / 200)), ("all_to_all", None, None)
    ]  # fmt: skip


def test_a_group_between_nodes_is_not_slow_beside_one_in_a_node(build: Builder) -> None:
    build.ranks(6)
    for group, ranks in enumerate(([0, 1], [2, 3], [4, 5])):
        build.group(group, ranks, link="inter-node" if group == 2 else "intra-node")
        length = 5000 if group == 2 else 1000
        build.collective(dict.fromkeys(ranks, (0, length)), bytes_=4000, group_id=group)
    found = {r["group_id"]: r["peer_ratio"] for r in rows(build.con, "bandwidth")}
    assert found == {0: 1, 1: 1, 2: None}


def _log(build: Builder, op: str, bytes_: int, algorithm: str) -> None:
    """NCCL's log of rank 0 names the communicator of group 0 and what it ran."""
    for place in (0, 1):
        build.con.execute(
            "INSERT INTO base.nccl_communicators BY NAME"
            " SELECT 9 AS source_id, $1 AS number, 1 AS pid, $1 AS rank, 'a' AS identity,"
            " $1 AS place, 2 AS size",
            [place],
        )
    build.con.execute(
        "INSERT INTO base.nccl_choices BY NAME SELECT 9 AS source_id, 1 AS pid, [0] AS numbers,"
        " $1 AS op, $2 AS bytes, FALSE AS per_rank, $3 AS algorithm, 1 AS chosen, 1 AS line",
        [op, bytes_, algorithm],
    )
