"""A simulated run, written as Kineto traces and read back, against what the simulator knows.

The truth is computed by the simulator from its own timeline, without SQL. All clocks are perfect
and `clocks` says so, so every answer has to be exact."""

import shutil
from collections.abc import Callable, Iterator
from math import ceil
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from tests.marks import first_at_once
from traceweave import analyses
from traceweave.store.database import open_database
from traceweave_simulator import Config, Gap, Truth, simulate

CONFIG = Config(
    ranks=3,
    steps=3,
    layers=4,
    straggler={2: 60_000},
    gaps=(
        Gap("launch_bound", 200_000, step=1), Gap("sync", 150_000),
        Gap("data_loading", 300_000, step=2, ranks=(1,)), Gap("dependency", 90_000),
    ),
)  # fmt: skip


@pytest.fixture(scope="module")
def simulated() -> Truth:
    return Truth(simulate(CONFIG))


@pytest.fixture(scope="module")
def woven(
    simulated_database: Callable[[Config], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[duckdb.DuckDBPyConnection]:
    folder = tmp_path_factory.mktemp("simulated")
    path = shutil.copy(simulated_database(CONFIG), folder / "run.duckdb")
    with duckdb.connect(path) as con:
        con.execute("UPDATE clocks SET offset_ns = 0, drift_ppm = 0, residual_p95_ns = 0")
    with open_database(path) as con:
        yield con


def _answer(con: duckdb.DuckDBPyConnection, name: str, **params: object) -> pd.DataFrame:
    table = analyses.run(con, name, **params).df()
    return table.astype({"step": "Int64"}) if "step" in table else table


@pytest.mark.parametrize("window", ["device", "host", "span"])
def test_breakdown(simulated: Truth, woven: duckdb.DuckDBPyConnection, window: str) -> None:
    want = simulated.breakdown(window)  # type: ignore[arg-type]
    got = _answer(woven, "breakdown", window=window)[list(want.columns)]
    pd.testing.assert_frame_equal(got, want, check_dtype=False)
    assert want["overlap_ns"].min() > 0


@first_at_once()
@pytest.mark.parametrize(("per", "scope"), [("device", "device"), ("stream", "compute_stream")])
def test_gaps(simulated: Truth, woven: duckdb.DuckDBPyConnection, per: str, scope: str) -> None:
    truth = simulated.gaps(scope)  # type: ignore[arg-type]
    want = truth.drop(columns="injected")
    got = _answer(woven, "gaps", per=per, min_gap_ns=1)
    assert got["duration_ns"].is_monotonic_decreasing
    got = got.sort_values(["rank", "device", "stream", "start_ns"], ignore_index=True)
    if per == "stream":
        got = got[got["stream"] == want["stream"].iloc[0]].reset_index(drop=True)
        # before the stream's first op and after its last one, which the truth leaves out
        got = got[got["after_op"].notna() & got["before_op"].notna()].reset_index(drop=True)
    got = got[list(want.columns)].astype({"stream": "Int64"})
    pd.testing.assert_frame_equal(got, want, check_dtype=False)
    causes = {"launch_bound", "sync", "data_loading", "kernel_delay"}
    assert set(want["cause"]) == causes | ({"dependency"} if per == "stream" else set())


def test_steps(simulated: Truth, woven: duckdb.DuckDBPyConnection) -> None:
    truth = simulated.steps
    truth["device_ns"] = truth["device_end_ns"] - truth["device_start_ns"]
    by = truth.groupby("step")
    slowest = truth.sort_values(["duration_ns", "rank"], ascending=[False, True])
    want = pd.DataFrame(
        {
            "ranks": by["rank"].count(), "first_start_ns": by["start_ns"].min(),
            "last_end_ns": by["end_ns"].max(), "duration_min_ns": by["duration_ns"].min(),
            "duration_max_ns": by["duration_ns"].max(),
            "slowest_rank": slowest.groupby("step")["rank"].first(),
            "device_min_ns": by["device_ns"].min(), "device_max_ns": by["device_ns"].max(),
        }
    ).reset_index()  # fmt: skip
    got = _answer(woven, "steps")[list(want.columns)]
    pd.testing.assert_frame_equal(got, want, check_dtype=False)


def test_tails(simulated: Truth, woven: duckdb.DuckDBPyConnection) -> None:
    truth = simulated.collectives
    truth["bytes_from"] = [2 ** (int(size).bit_length() - 1) for size in truth["bytes"]]
    want = []
    for (op, bytes_from), calls in truth.groupby(["op", "bytes_from"]):
        instances = calls.drop_duplicates("collective_id")
        row: dict[str, object] = {
            "op": op, "bytes_from": bytes_from, "instances": len(instances), "calls": len(calls),
        }  # fmt: skip
        for name, values in (
            ("duration", calls["duration_ns"]),
            ("wait", calls["wait_ns"]),
            ("transfer", instances["transfer_ns"]),
        ):
            ordered = sorted(values)
            for percent in (50, 95, 99):
                nearest = ceil(percent * len(ordered) / 100) - 1
                row[f"{name}_p{percent}_ns"] = ordered[nearest]
            row[f"{name}_max_ns"] = ordered[-1]
        # two that arrive in the same nanosecond are both not last
        starts = calls.groupby("collective_id")["start_ns"].nlargest(2).groupby(level=0)
        alone = instances["collective_id"].map(starts.max() > starts.min())
        times_last = instances.loc[alone, "last_rank"].value_counts()
        row["last_rank"] = times_last[times_last == times_last.max()].index.min()
        row["last_rank_share"] = times_last.max() / alone.sum() if alone.any() else float("nan")
        want.append(row)
    got = _answer(woven, "tails")
    pd.testing.assert_frame_equal(got[list(want[0])], pd.DataFrame(want), check_dtype=False)
    assert got["last_rank"].dropna().tolist() == [2]


def test_stragglers(simulated: Truth, woven: duckdb.DuckDBPyConnection) -> None:
    truth = simulated.collectives
    caused = dict.fromkeys(range(CONFIG.ranks), 0)
    for _, calls in truth.groupby("collective_id"):
        *_, second, last = sorted(calls["start_ns"])
        caused[int(calls["last_rank"].iloc[0])] += (last - second) * (len(calls) - 1)
    got = _answer(woven, "stragglers")
    assert dict(zip(got["rank"], got["caused_wait_ns"], strict=True)) == caused
    assert max(caused.values()) > 0


def test_clock_quality(woven: duckdb.DuckDBPyConnection) -> None:
    got = _answer(woven, "clock_quality")
    assert got["violations"].tolist() == [0] * CONFIG.ranks
    assert got["instances"].min() > 0
