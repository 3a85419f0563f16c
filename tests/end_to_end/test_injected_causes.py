"""Causes put into simulated runs on purpose, and found again by `findings`.

What a cause costs is known from the simulator's own timeline: the mean step of the run with it,
less that of the same run without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import traceweave
from traceweave.simulate import Config, Gap, simulate, write_kineto

MS = 1_000_000
BASE = Config(ranks=4, steps=4, layers=4)
PAIRS = replace(BASE, ranks=8, parallelism="tp", group_size=2)


@dataclass(frozen=True)
class Cause:
    """One cause: the run with it, and the finding that it must lead to."""

    rule: str
    change: Mapping[str, Any]
    base: Config = BASE
    ranks: list[int] | None = None
    place: int = 1
    """Among how many of the first findings it has to be."""
    says: str = ""
    """Words that the evidence holds."""
    tolerance: float | None = 0.2
    """How far the cost may be from the truth; None: what removing it would save is not known."""
    without: Mapping[str, Any] = field(default_factory=dict)
    """The run without the cause, as far as it is not `base`."""


CAUSES = {
    "slow GPU": Cause("straggler", {"straggler": {2: 3 * MS}}, ranks=[2], says="computes longer"),
    "slow GPU in tensor parallelism": Cause(
        "straggler", {"straggler": {3: 3 * MS}}, PAIRS, ranks=[3], place=2, says="computes longer"
    ),
    "slow data on one rank": Cause(
        "straggler",
        {"gaps": (Gap("data_loading", 4 * MS, ranks=(1,)),)},
        ranks=[1],
        says="waits for data",
    ),
    "slow data": Cause("data_bound", {"gaps": (Gap("data_loading", 4 * MS),)}),
    "slow host": Cause("launch_bound", {"slow_host": dict.fromkeys(range(4), 150_000)}),
    "slow host of one rank": Cause(
        "straggler", {"slow_host": {3: 150_000}}, ranks=[3], says="host is late (launch_bound)"
    ),
    "pause of the host": Cause("launch_bound", {"gaps": (Gap("launch_bound", 3 * MS),)}),
    "synchronizing in the loop": Cause("sync_bound", {"gaps": (Gap("sync", 3 * MS),)}),
    "small buckets": Cause(
        "small_collectives",
        {"bucket_parts": 50, "alpha_ns": 30_000, "overlap": False},
        place=2,
        without={"alpha_ns": 30_000, "overlap": False},
    ),
    # the last bucket cannot be hidden: the cost is an upper bound
    "no overlap": Cause("poor_overlap", {"overlap": False, "beta_gbps": 100.0}, tolerance=None),
    "slow network": Cause("communication_bound", {"beta_gbps": 15.0}, place=2, tolerance=None),
    "pageable batches": Cause("pageable_copies", {"pageable_bytes": 18_000_000}),
    "slow link of one rank": Cause("slow_link", {"slow_link": {3: 3.0}}, PAIRS, ranks=[3]),
    "stalls": Cause(
        "long_tail",
        {"overlap": False, "stall_share": 0.06, "stall_ns": 8 * MS, "steps": 8},
        place=2,
        without={"overlap": False, "steps": 8},
    ),
    "slow GPU of a pipeline": Cause(
        "slow_kernels",
        {"straggler": {1: 12 * MS}},
        replace(BASE, parallelism="pp", group_size=4),
        ranks=[1],
        place=2,
        tolerance=None,
    ),
}  # fmt: skip


def mean_step_ns(config: Config) -> float:
    return float(simulate(config).truth.breakdown("device")["window_ns"].mean())


def findings(config: Config, folder: Path) -> pd.DataFrame:
    write_kineto(simulate(config), folder / "traces")
    traceweave.ingest([folder / "traces"], folder / "run.duckdb")
    with traceweave.open(folder / "run.duckdb") as run:
        return run.analyze("findings")


@pytest.mark.parametrize("name", CAUSES)
def test_an_injected_cause_is_found_with_its_rank_and_cost(name: str, tmp_path: Path) -> None:
    cause = CAUSES[name]
    config = replace(cause.base, **cause.change)
    found = findings(config, tmp_path)
    first = found.head(cause.place)
    row = first[first["rule"] == cause.rule].iloc[0]
    assert (None if row["ranks"] is None else list(row["ranks"])) == cause.ranks
    assert cause.says in row["evidence"]
    assert row["severity"] in ("warning", "critical")
    if cause.tolerance is not None:
        truth = mean_step_ns(config) - mean_step_ns(replace(cause.base, **cause.without))
        assert row["cost_ns"] == pytest.approx(truth, rel=cause.tolerance)


SIX = replace(BASE, layers=6)
CLEAN = {
    "ddp": replace(SIX, seed=1),
    "ddp, another seed": replace(SIX, seed=2),
    "fsdp": replace(SIX, seed=3, parallelism="fsdp", beta_gbps=900.0),
    "tp": replace(SIX, seed=4, parallelism="tp"),
    "tp and dp": replace(SIX, seed=5, parallelism="tp", group_size=2),
    "pp": replace(SIX, seed=6, parallelism="pp"),
    "pp and dp": replace(SIX, seed=7, parallelism="pp", group_size=2),
}


@pytest.mark.parametrize("name", CLEAN)
def test_a_clean_run_has_no_fault(name: str, tmp_path: Path) -> None:
    found = findings(CLEAN[name], tmp_path)
    assert set(found["severity"]) <= {"info"}
    assert "straggler" not in set(found["rule"])
    assert ("pipeline_wait" in set(found["rule"])) == name.startswith("pp")
