"""Simulated clocks, from calls to rows: a table of what they do, and how exactly that comes out."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from tests.marks import nightly
from tests.traffic import woven
from traceweave.clocks import model
from traceweave.medians import others_medians
from traceweave_simulator.traffic_jobs import DDP, FSDP, TP_DP, Job, Op, pipeline
from traceweave_simulator.traffic_tables import clock_errors, outside_bounds


@dataclass(frozen=True)
class Case:
    """A job, and the 95th percentile of its clocks' errors, us, that is to be reached."""

    name: str
    job: Job
    p95_us: float


PLAIN = Job(hosts=3, per_host=2, steps=60, end_jitter=4, ring_bias=0, with_hosts=True)
RING = Job(steps=100, ring_wave=28, ring_bias=6, ring_shape="random", end_jitter=2)


def of(program: tuple[Op, ...], **changes: object) -> Job:
    """RING with another program."""
    return Job(**{**vars(RING), "program": program, **changes})  # type: ignore[arg-type]


def plain(**changes: object) -> Job:
    """PLAIN with changes."""
    return Job(**{**vars(PLAIN), **changes})  # type: ignore[arg-type]


CASES = [
    Case("GPUs apart", plain(gpu_us=2), 1.5),
    Case("hosts step and wander", plain(steps=120, step_apart_us=300, wander_apart_us=100), 5),
    Case("a clock per rank", plain(own_clocks=True), 2),
    Case("ring", RING, 1),
    Case("ring, sharded", of(FSDP), 1.5),
    Case("ring, pipeline", of(pipeline(2)), 4),
    Case("ring, tensor x data", of(TP_DP), 4),
    Case("ring, lags of a rank grow with transfers", Job(steps=100, ring_bias=10, end_jitter=3), 1),
]
TP_DP_16 = plain(
    hosts=4, per_host=4, program=TP_DP, steps=40,
    step_apart_us=300, offset_s=0.8, drift_ppm=40, gpu_us=2,
)  # fmt: skip
CASES += [
    # lines of one clock that steps leave it by half of the step: its own ends say on which side
    Case("tensor x data, clocks far apart, step", replace(TP_DP_16, seed=2), 2),
    # two hosts that step near each other pass for one
    Case("tensor x data, two steps at once", replace(TP_DP_16, seed=5), 2),
    Case("hosts nobody named, wander", of(TP_DP, steps=60, wander_apart_us=100, seed=2), 3),
]
# of a pipeline's hosts no rank steps or wanders by itself: ranks nearest to it go with it
UNNAMED = of(pipeline(4), hosts=4, per_host=4, steps=150)
CASES += [
    Case("pipeline, hosts nobody named, step", replace(UNNAMED, jump_us=1000), 2),
    Case("pipeline, hosts nobody named, wander", replace(UNNAMED, wander_us=100), 2),
    Case("the same, GPUs apart, step", replace(UNNAMED, gpu_us=4, jump_us=1000), 2),
]
CASES += [
    # to most ends a clock that is off for a twelfth of the time is so by chance
    Case(
        "hosts step there and back",
        plain(hosts=2, steps=120, step_apart_us=300, wander_apart_us=60, seed=4),
        2,
    ),
    # two clocks of which one bends: set at once, both bends were given up
    Case("ring, wander", of(DDP, per_host=8, steps=300, wander_us=100), 1),
    Case("tensor x data, hosts step", plain(program=TP_DP, steps=120, step_apart_us=300), 5),
    Case("tensor x data, hosts wander", plain(program=TP_DP, steps=120, wander_apart_us=100), 6),
    Case("eight ranks a host", plain(hosts=4, per_host=8, steps=200, step_apart_us=300), 2),
]
AT_ONCE = {
    "GPUs apart", "a clock per rank", "ring, pipeline",
}  # fmt: skip


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=() if case.name in AT_ONCE else nightly) for case in CASES],
    ids=lambda case: case.name,
)
def test_clocks_come_out_as_exactly_as_ends_tell_them(case: Case) -> None:
    with woven(case.job) as (con, run):
        errors = np.abs(clock_errors(con, run))
        assert np.percentile(errors, 95) < case.p95_us
        assert outside_bounds(con, run) == []


@nightly
def test_a_step_lies_between_two_calls_and_says_that_nobody_knows_where() -> None:
    with woven(plain(step_apart_us=300)) as (con, run):
        gaps = con.execute(
            "SELECT count(*), min(bound_ns) FROM clocks WHERE anchors = 0 AND rank > 0"
        ).fetchall()
        rows = con.execute("SELECT method FROM clocks WHERE rank = 2").fetchall()
        step = np.abs(run.clocks.step).max()
    count, bound = gaps[0]
    # two rows for every step of a rank or of its reference, before and after the middle
    assert count >= 2 * 4
    assert bound > step
    assert all("steps" in method for (method,) in rows)


def test_how_far_ends_lie_is_told_from_those_of_the_others() -> None:
    values = np.array([1.0, 4.0, 2.0, 9.0, 3.0, 1.0, 5.0, 8.0, 2.0])
    kind = np.array([0, 0, 1, 1, 1, 2, 2, 2, 2])
    assert others_medians(values, kind).tolist() == [4, 1, 6, 2.5, 5.5, 5, 2, 2, 5]


def test_gpus_whose_calls_end_as_on_one_clock_share_one() -> None:
    """Two hosts of four that nobody named: two clocks, and constants of GPUs."""
    with woven(of(TP_DP, hosts=2, per_host=4, gpu_us=2)) as (con, _):
        rates = con.execute("SELECT rank // 4, drift_ppm FROM clocks ORDER BY rank").fetchall()
    assert {rate for host, rate in rates if host == 0} == {0.0}
    assert len({round(rate, 6) for host, rate in rates if host == 1}) == 1


@pytest.mark.parametrize("scatter_us", [2.0, 30.0])
def test_a_steady_clock_is_one_line(scatter_us: float) -> None:
    with woven(Job(steps=150, end_jitter=scatter_us, ring_wave=20)) as (con, _):
        found = con.execute("SELECT count(*), count(DISTINCT rank) FROM clocks").fetchall()
    assert found == [(8, 8)]


@nightly
def test_of_random_jobs_no_offset_lies_outside_its_bound() -> None:
    """A hunt: hosts that step, wander, or neither, over programs and scatter of ends."""
    rng = np.random.default_rng(5)
    for _ in range(12):
        job = plain(
            hosts=int(rng.integers(2, 4)), steps=int(rng.integers(10, 60)),
            end_jitter=float(rng.uniform(1, 20)), seed=int(rng.integers(1_000)),
            step_apart_us=float(rng.choice([0, 300])), wander_apart_us=float(rng.choice([0, 100])),
        )  # fmt: skip
        with woven(job) as (con, run):
            assert outside_bounds(con, run) == [], job


@pytest.mark.parametrize("job", [of(pipeline(2), steps=20), plain(steps=20, own_clocks=True)])
def test_sums_of_few_clocks_are_those_of_many(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for dense in (0.0, np.inf):  # all sparse, all dense
        monkeypatch.setattr(model, "DENSE", dense)
        with woven(job) as (con, _):
            rows = con.execute("SELECT offset_ns, bound_ns FROM clocks ORDER BY ALL").fetchall()
            found.append(np.array(rows, dtype=float))
    assert found[0].shape == found[1].shape
    assert np.allclose(*found, rtol=0, atol=10, equal_nan=True)
