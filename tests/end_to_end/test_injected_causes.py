"""Causes put into simulated runs on purpose, and found again by `findings`.

What a cause costs is known from the simulator's own timeline: the mean step of the run with it,
less that of the same run without it."""

from dataclasses import dataclass, replace

import pytest

from tests import simulated_runs
from tests.conftest import Simulated
from tests.marks import at_once, nightly
from tests.simulated_runs import MS
from traceweave_simulator import Config, Gap, Truth, simulate

BASE = simulated_runs.FOUR_RANKS
TWO_RANKS = replace(BASE, ranks=2)
"""For what all ranks have alike."""
PAIRS = replace(BASE, parallelism="tp", group_size=2)


@dataclass(frozen=True)
class Cause:
    """One cause: the run with it, and the finding that it must lead to."""

    rule: str
    config: Config
    base: Config = BASE
    """The run without it."""
    ranks: list[int] | None = None
    place: int = 1
    """Among how many of the first findings it has to be."""
    says: str = ""
    """Words that the evidence holds."""
    advises: str = ""
    """What the advice begins with, where replay has to agree with it."""
    tolerance: float | None = 0.05
    """How far the cost may be from the truth; None: what removing it would save is not known."""
    window: str = "device"
    """What `steps` measures by in the run with it."""


EXPOSED = replace(TWO_RANKS, overlap=False)
SLOW_START = replace(EXPOSED, alpha_ns=30_000)
CAUSES = {
    "slow GPU": Cause("straggler", simulated_runs.SLOW_GPU, ranks=[2], says="computes longer"),
    "slow GPU in tensor parallelism": Cause(
        "straggler", simulated_runs.SLOW_GPU_TP, PAIRS, ranks=[2], place=2, says="computes longer"
    ),
    "slow data on one rank": Cause(
        "straggler", simulated_runs.SLOW_DATA, ranks=[1], says="waits for data"
    ),
    "slow data": Cause(
        "data_bound",
        replace(TWO_RANKS, gaps=(Gap("data_loading", 4 * MS),)),
        TWO_RANKS,
        window="host",
    ),
    "slow host": Cause(
        "launch_bound", replace(TWO_RANKS, slow_host={0: 150_000, 1: 150_000}), TWO_RANKS
    ),
    "slow host of one rank": Cause(
        "straggler", simulated_runs.SLOW_HOST, ranks=[3], says="host is late (launch_bound)"
    ),
    "pause of the host": Cause(
        "launch_bound", replace(TWO_RANKS, gaps=(Gap("launch_bound", 3 * MS),)), TWO_RANKS
    ),
    "synchronizing in the loop": Cause(
        "sync_bound", replace(TWO_RANKS, gaps=(Gap("sync", 3 * MS),)), TWO_RANKS
    ),
    "small buckets": Cause(
        "small_collectives",
        replace(SLOW_START, bucket_parts=50),
        SLOW_START,
        place=2,
        advises="Merge them: coalesced collectives",
        # merged up to 25 MB: the run without it has other buckets
        tolerance=0.1,
    ),
    # the last bucket cannot be hidden: the cost is an upper bound
    "no overlap": Cause(
        "poor_overlap", replace(EXPOSED, beta_gbps=100.0), TWO_RANKS, tolerance=None
    ),
    "slow network": Cause(
        "communication_bound", replace(BASE, beta_gbps=15.0), place=2, tolerance=None
    ),
    "pageable batches": Cause(
        "pageable_copies", replace(TWO_RANKS, pageable_bytes=18_000_000), TWO_RANKS
    ),
    "slow link of one rank": Cause(
        "slow_link", replace(PAIRS, slow_link={3: 3.0}), PAIRS, ranks=[3], place=2
    ),
    "stalls": Cause(
        "long_tail",
        replace(EXPOSED, steps=8, stall_share=0.06, stall_ns=8 * MS),
        replace(EXPOSED, steps=8),
        place=3,
        # one of three is in the loss, which the host reads in every step: read_sum tells of that
        tolerance=0.35,
    ),
    "slow GPU of a pipeline": Cause(
        "slow_kernels",
        replace(BASE, parallelism="pp", group_size=4, straggler={1: 12 * MS}),
        ranks=[1],
        place=2,
        tolerance=None,
    ),
}


def mean_step_ns(config: Config, window: str) -> float:
    return float(Truth(simulate(config)).breakdown(window)["window_ns"].mean())


@pytest.mark.parametrize("name", at_once(CAUSES, "slow GPU"))
def test_an_injected_cause_is_found_with_its_rank_and_cost(name: str, simulated: Simulated) -> None:
    cause = CAUSES[name]
    first = simulated(cause.config).analyze("findings").head(cause.place)
    row = first[first["rule"] == cause.rule].iloc[0]
    assert (None if row["ranks"] is None else list(row["ranks"])) == cause.ranks
    assert cause.says in row["evidence"]
    assert row["advice"].startswith(cause.advises)
    assert row["severity"] in ("warning", "critical")
    if cause.tolerance is not None:
        with_it, without = (mean_step_ns(c, cause.window) for c in (cause.config, cause.base))
        truth = with_it - without
        assert row["cost_ns"] == pytest.approx(truth, rel=cause.tolerance)


SIX = replace(BASE, layers=6)
CLEAN = {
    "ddp": replace(SIX, seed=1),
    "ddp, another seed": replace(SIX, seed=2),
    "fsdp": replace(SIX, seed=3, parallelism="fsdp", beta_gbps=900.0),
    "tp": replace(SIX, seed=4, parallelism="tp"),
    "tp and dp": replace(SIX, seed=5, parallelism="tp", group_size=2),
    # as many layers on every stage
    "pp": replace(SIX, seed=6, parallelism="pp", layers=8),
    "pp and dp": replace(SIX, seed=7, parallelism="pp", group_size=2),
}


@nightly
@pytest.mark.parametrize("name", CLEAN)
def test_a_clean_run_has_no_fault(name: str, simulated: Simulated) -> None:
    found = simulated(CLEAN[name]).analyze("findings")
    assert set(found["severity"]) <= {"info"}
    assert "straggler" not in set(found["rule"])
    assert ("pipeline_wait" in set(found["rule"])) == name.startswith("pp")
