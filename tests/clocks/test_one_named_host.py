"""Clocks of ranks whose threads read the clock of one named host: recorded ones, true offset 0."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import traceweave
from tests.marks import at_once, nightly
from tests.rewritten import rewritten
from traceweave.clocks.start import SAME_NS as HOST_NS

# what is known of them stands in tests/fixtures/README.md
RECORDED = (
    "ddp_gloo_4ranks", "ddp_gloo_straggler", "fsdp1_gloo", "fsdp2_gloo", "two_groups_gloo",
    "tp2_dp2_gloo", "slow_rank_2x2_gloo", "pairs_gloo", "uneven_start_gloo", "busy_cores_gloo",
    "broadcasts_gloo",
    # messages alone: what was wrong is that nobody was ever known to come last
    "messages_tags_gloo",
)  # fmt: skip


def named(folder: Path, target: Path, host: Callable[[int], str], ahead_ns: int = 0) -> Path:
    """Write recordings again with the hosts they were made on, rank 0's `ahead_ns` ahead."""

    def change(trace: dict[str, Any]) -> None:
        rank = trace["distributedInfo"]["rank"]
        trace["host_name"] = host(rank)
        trace["baseTimeNanoseconds"] += ahead_ns if rank == 0 else 0

    return rewritten(folder, target, change)


@pytest.mark.parametrize("name", at_once(RECORDED, "fsdp1_gloo"))
def test_threads_of_one_host_have_its_clock(name: str, fixtures: Path, tmp_path: Path) -> None:
    # fitted to ends, clocks of these runs are up to 0.8 ms and 737 ppm off
    traces = named(fixtures / name, tmp_path / "traces", lambda rank: "node0")
    assert traceweave.ingest([traces], tmp_path / "run.duckdb").ok
    with traceweave.open(tmp_path / "run.duckdb") as run:
        clocks = run.sql("FROM clocks")
        assert set(clocks.offset_ns) == set(clocks.drift_ppm) == {0}
        # ends scatter by 1 to 20 ms here, which is no matter of clocks
        assert clocks.residual_p95_ns.max() == HOST_NS


@nightly
def test_a_clock_of_another_host_of_that_name_stays_within_bounds(
    fixtures: Path, tmp_path: Path
) -> None:
    # rank 0 as of a second machine that is called the same, ahead by less than ends scatter
    ahead = 900_000
    folder = fixtures / "ddp_gloo_4ranks"
    traces = named(folder, tmp_path / "traces", lambda rank: "localhost", ahead)
    assert traceweave.ingest([traces], tmp_path / "run.duckdb").ok
    with traceweave.open(tmp_path / "run.duckdb") as run:
        clocks = run.sql("FROM clocks ORDER BY rank")[1:]
        assert set(clocks.offset_ns) == {0}
        assert clocks.bound_ns.min() >= ahead


@nightly
def test_hosts_of_two_names_are_fitted(fixtures: Path, tmp_path: Path) -> None:
    traces = named(
        fixtures / "ddp_gloo_4ranks", tmp_path / "traces", lambda rank: f"node{rank % 2}"
    )
    assert traceweave.ingest([traces], tmp_path / "run.duckdb").ok
    with traceweave.open(tmp_path / "run.duckdb") as run:
        offsets = run.sql("SELECT offset_ns FROM clocks ORDER BY rank").offset_ns.tolist()
        assert offsets[2] == 0
        assert offsets[1] == offsets[3] != 0
        assert run.sql("SELECT min(residual_p95_ns) AS r FROM clocks").r[0] > 1_000_000


# what was wrong: known to 20 us, and who came last of two hosts with it, half a second apart
def test_messages_do_not_tell_the_clocks_of_two_hosts(fixtures: Path, tmp_path: Path) -> None:
    folder = fixtures / "messages_tags_gloo"
    traces = named(folder, tmp_path / "traces", lambda rank: f"node{rank // 2}", 500_000_000)
    assert traceweave.ingest([traces], tmp_path / "run.duckdb").ok
    with traceweave.open(tmp_path / "run.duckdb") as run:
        known = run.sql("SELECT rank FROM clocks WHERE residual_p95_ns IS NOT NULL ORDER BY rank")
        assert known["rank"].tolist() == [0, 1]
