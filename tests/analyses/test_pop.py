import pytest

from tests.analyses.builders import Builder, rows, told
from tests.conftest import Simulated
from tests.marks import first_at_once
from tests.simulated_runs import SLOW_GPU
from traceweave_simulator import Truth, simulate

NAMES = (
    "step", "ranks", "runtime_ns", "useful_mean_ns", "useful_max_ns", "load_balance",
    "communication_efficiency", "parallel_efficiency", "busiest_rank", "idlest_rank", "note",
)  # fmt: skip


def _two_ranks(build: Builder) -> None:
    # rank 0 computes 0-80 and 60-100 of its window 0-200, rank 1 0-50 of 0-160
    for rank, window in ((0, 200), (1, 160)):
        build.rank(rank)
        build.step(rank, 1, (0, 100), (0, window))
    build.gpu(0, (0, 80))
    build.gpu(0, (60, 100), stream=8)
    build.gpu(0, (100, 200), category="communication")
    build.gpu(1, (0, 50))
    build.gpu(1, (50, 160), category="communication")


def test_useful_time_is_the_union_of_compute(build: Builder) -> None:
    _two_ranks(build)
    want = (1, 2, 200, 75, 100, 0.75, 0.5, 0.375, 0, 1, None)
    assert rows(build.con, "pop") == [dict(zip(NAMES, want, strict=True))]


def test_missing_ranks_are_named(build: Builder) -> None:
    _two_ranks(build)
    build.con.execute("UPDATE base.rank_sources SET world_size = 8")
    assert rows(build.con, "pop", window="span")[0]["note"] == "2 of 8 ranks recorded"


def test_one_rank_has_no_balance_and_no_compute_no_ratio(build: Builder) -> None:
    build.rank(0)
    build.gpu(0, (0, 50), category="communication")
    (row,) = rows(build.con, "pop")
    assert (row["load_balance"], row["parallel_efficiency"]) == (None, 0.0)
    assert row["note"] == "one rank has nothing to be balanced with"
    build.rank(1)
    build.gpu(1, (0, 50), category="communication")
    assert told(build.con, "pop", "load_balance note") == [(None, "no compute")]


@first_at_once()
@pytest.mark.parametrize("window", ["device", "host", "span"])
def test_it_is_what_was_simulated(simulated: Simulated, window: str) -> None:
    got = simulated(SLOW_GPU).pop(window=window)
    truth = Truth(simulate(SLOW_GPU)).breakdown(window)  # type: ignore[arg-type]
    by = truth.groupby("step", dropna=False)
    balance = by["compute_ns"].mean() / by["compute_ns"].max()
    efficiency = by["compute_ns"].mean() / by["window_ns"].max()
    # clocks are fitted, so a window may be a nanosecond or two off
    assert got["load_balance"].tolist() == pytest.approx(balance.tolist(), rel=1e-5)
    assert got["parallel_efficiency"].tolist() == pytest.approx(efficiency.tolist(), rel=1e-5)
    assert set(got["busiest_rank"]) == {2}
