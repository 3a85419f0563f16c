"""Matching and clocks on real traces; the ranks of a set shared a host: true offsets are 0."""

from collections.abc import Callable
from pathlib import Path

import pytest

import traceweave
from tests.marks import nightly

Woven = Callable[[str], traceweave.Run]


@pytest.fixture
def woven(corpus: Path, database_of: Callable[..., Path]) -> Woven:
    return lambda name: traceweave.open(database_of(corpus / "kineto" / name))


@pytest.fixture
def instances() -> str:
    return (
        "SELECT ranks_seen, complete, count(*) AS n, max(last_start_ns - first_end_ns) AS worst"
        " FROM collective_instances GROUP BY ALL ORDER BY ranks_seen"
    )


def test_megatron_is_matched_by_order_and_needs_no_offset(woven: Woven, instances: str) -> None:
    with woven("megatron_tp8") as run:
        found = run.sql(instances)
        assert found[["ranks_seen", "complete", "n"]].values.tolist() == [[8, True, 84]]
        assert found.worst[0] < 0
        assert run.sql("SELECT DISTINCT match FROM collectives").match.tolist() == ["order"]
        clocks = run.sql("SELECT offset_ns, drift_ppm, bound_ns, status FROM clocks")
        assert clocks.offset_ns.abs().max() <= 10_000
        # over 0.6 s: 0.3 s from the middle, 15 ppm are 4.5 us
        assert clocks.drift_ppm.abs().max() < 15
        assert clocks.bound_ns.max() < 130_000
        assert set(clocks.status) == {"aligned"}


@nightly
def test_ranks_that_began_recording_earlier_are_shifted_into_place(
    woven: Woven, instances: str
) -> None:
    with woven("nanogpt_8xh100") as run:
        found = run.sql(instances)
        # 76 that all recorded, 5 and 3 more of the ranks that began 30 ms earlier
        assert found[["ranks_seen", "complete", "n"]].values.tolist() == [
            [3, False, 3],
            [4, False, 5],
            [8, True, 76],
        ]
        assert found.worst.max() < 0
        mixed = run.sql(
            "SELECT collective_id FROM collectives GROUP BY collective_id"
            " HAVING count(DISTINCT op) > 1 OR count(DISTINCT bytes) > 1"
            " OR count(DISTINCT dtype) > 1 OR count(*) <> count(DISTINCT rank)"
        )
        assert mixed.empty
        assert run.sql("SELECT max(abs(offset_ns)) AS o FROM clocks").o[0] <= 2_000


def test_all_to_all_kernels_without_names_are_matched(woven: Woven, instances: str) -> None:
    with woven("torchrec_4") as run:
        found = run.sql(instances)
        assert found[["ranks_seen", "complete", "n"]].values.tolist() == [[4, True, 30]]
        # the GPUs' own timestamps differ by up to 73 us here
        assert run.sql("SELECT max(abs(offset_ns)) AS o FROM clocks").o[0] <= 73_000
