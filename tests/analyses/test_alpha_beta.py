from pathlib import Path

import pytest

import traceweave
from tests.analyses.builders import Builder, rows, told
from tests.marks import first_at_once, nightly
from traceweave_simulator import Config, simulate, write_kineto

NAMES = (
    "op", "group_id", "ranks", "alpha_ns", "beta_gbps", "half_bytes", "sizes", "instances",
    "bytes_min", "bytes_max", "error_p50_share", "error_max_share", "unresolved_sizes",
    "bus_factor", "algorithm", "protocol", "note",
)  # fmt: skip
UNRESOLVED = "its transfers are below the clock resolution"


def _sizes(
    build: Builder, transfers: dict[int | None, int], residual_ns: int = 0, ranks: int = 2
) -> None:
    build.world(ranks, residual_ns=residual_ns)
    for number, (size, transfer) in enumerate(transfers.items()):
        at = number * 1_000_000
        end = at + 5000 + transfer
        build.collective({0: (at, end), 1: (at + 5000, end)}, bytes_=size)


def test_the_line_of_exact_transfers_is_found(build: Builder) -> None:
    # transfer = 1000 + bytes / 4
    _sizes(build, {400: 1100, 4000: 2000, 40_000: 11_000})
    want = (
        "all_reduce", 0, 2, 1000, 4.0, 4000, 3, 3, 400, 40_000, 0.0, 0.0, 0, 1.0, None, None, None,
    )  # fmt: skip
    assert rows(build.con, "alpha_beta") == [dict(zip(NAMES, want, strict=True))]


def test_one_size_far_off_moves_the_line_little(build: Builder) -> None:
    exact: dict[int | None, int] = {
        size: 1000 + size // 4 for size in (4000, 8000, 16_000, 32_000, 64_000, 128_000)
    }
    _sizes(build, {**exact, 16_000: 50_000})
    columns = "beta_gbps alpha_ns error_p50_share error_max_share"
    assert told(build.con, "alpha_beta", columns) == [
        (pytest.approx(4), 1000, pytest.approx(0), pytest.approx(0.9))
    ]


@first_at_once(2)
@pytest.mark.parametrize(
    ("transfers", "note"),
    [
        ({800: 1100}, "not computable: there is one size only"),
        ({None: 1100}, "not computable: the trace does not say how many bytes"),
        ({400: 1100, 500: 1200}, "not computable: its sizes are too similar"),
        ({400: 1100, 4000: 1100}, "not computable: larger sizes do not take longer"),
        # of DDP's buckets: no latency of 260 us, whatever the links
        ({40_000: 300_000, 80_000: 290_000}, "not computable: larger sizes do not take longer"),
        ({400: 9, 4000: 99}, f"not computable: {UNRESOLVED}"),
    ],
)
def test_what_is_not_computable_says_why(
    build: Builder, transfers: dict[int | None, int], note: str
) -> None:
    _sizes(build, transfers, residual_ns=500)
    columns = "alpha_ns beta_gbps half_bytes note"
    assert told(build.con, "alpha_beta", columns) == [(None, None, None, note)]


def test_of_one_size_latency_is_what_no_link_explains(build: Builder) -> None:
    """400 bytes take 400 ns at 1 GB/s, and took 1,100: where 800 did, most of it may be moving."""
    _sizes(build, {400: 1100}, residual_ns=500)
    (row,) = rows(build.con, "alpha_beta")
    assert (row["alpha_ns"], row["beta_gbps"], row["half_bytes"]) == (700, None, 700)
    assert row["note"] == "one size only: alpha_ns is what it takes beyond a bandwidth of 1 GB/s"


def test_where_larger_sizes_do_not_take_longer_all_is_latency(build: Builder) -> None:
    """400 and 800 bytes take 400 and 800 ns at 1 GB/s, and took 2,000 and 1,900."""
    _sizes(build, {400: 2000, 800: 1900}, residual_ns=500)
    (row,) = rows(build.con, "alpha_beta")
    assert (row["alpha_ns"], row["beta_gbps"], row["half_bytes"]) == (1350, None, 1350)
    assert row["note"].startswith("larger sizes do not take longer: alpha_ns is what they take")


def test_operations_of_one_rank_alone_have_no_transfer(build: Builder) -> None:
    build.rank(0)
    build.collective({0: (0, 100)})
    (row,) = rows(build.con, "alpha_beta")
    assert (row["beta_gbps"], row["note"]) == (None, "not computable: seen on one rank only")


def test_two_sizes_give_a_line_without_errors_and_large_ones_no_latency(build: Builder) -> None:
    _sizes(build, {1000: 1000, 4000: 2500})
    (row,) = rows(build.con, "alpha_beta")
    assert (row["alpha_ns"], row["beta_gbps"], row["error_max_share"]) == (500, 2.0, None)
    assert row["note"] == "no errors: a line always fits two sizes"
    build.con.execute("DELETE FROM base.collective_calls")
    build.con.execute("DELETE FROM base.matches")
    build.collective({0: (0, 1000), 1: (0, 1000)}, bytes_=1000)
    build.collective({0: (9000, 14_000), 1: (9000, 14_000)}, bytes_=4000)
    (row,) = rows(build.con, "alpha_beta")
    assert (row["alpha_ns"], row["half_bytes"], row["beta_gbps"]) == (None, None, 0.75)
    assert str(row["note"]).startswith("no latency")


@nightly
def test_where_ranks_are_missing_the_line_holds_waiting_for_them(build: Builder) -> None:
    _sizes(build, {400: 1100, 4000: 2000, 40_000: 11_000})
    build.con.execute("UPDATE groups SET size = 8")
    (row,) = rows(build.con, "alpha_beta")
    # the bus factor of an all-reduce on eight ranks is 7/4
    assert (row["alpha_ns"], row["beta_gbps"]) == (1000, 7.0)
    assert row["note"] == "6 of 8 ranks not seen: waiting for them counts as transfer"
    build.con.execute("DELETE FROM base.matches WHERE call_id > 6")
    (row,) = rows(build.con, "alpha_beta")
    assert row["note"] == (
        "no errors: a line always fits two sizes; 6 of 8 ranks not seen: waiting for them counts as"
        " transfer"
    )


@nightly
def test_the_shortest_durations_need_no_clock(build: Builder) -> None:
    _sizes(build, {400: 1100, 4000: 2000, 40_000: 11_000}, residual_ns=10**9)
    assert rows(build.con, "alpha_beta")[0]["unresolved_sizes"] == 3
    (row,) = rows(build.con, "alpha_beta", time="shortest")
    assert (row["alpha_ns"], row["beta_gbps"], row["note"]) == (1000, 4.0, None)


@nightly
@pytest.mark.parametrize(("alpha_ns", "beta_gbps"), [(12_000, 220.0), (80_000, 45.0)])
def test_what_was_simulated_is_recovered(tmp_path: Path, alpha_ns: int, beta_gbps: float) -> None:
    config = Config(
        ranks=4, steps=3, layers=4, alpha_ns=alpha_ns, beta_gbps=beta_gbps, straggler={1: 500_000},
        end_jitter_ns=2000, clock_offset_ns=500_000, clock_drift_ppm=20,
    )  # fmt: skip
    write_kineto(simulate(config), tmp_path / "traces")
    traceweave.ingest([tmp_path / "traces"], tmp_path / "run.duckdb")
    with traceweave.open(tmp_path / "run.duckdb") as run:
        fits = run.alpha_beta()
    assert len(fits) == 1
    fit = fits.iloc[0]
    assert fit["beta_gbps"] == pytest.approx(beta_gbps, rel=0.02)
    assert fit["alpha_ns"] == pytest.approx(alpha_ns, abs=5000)
    assert fit["sizes"] == 3
