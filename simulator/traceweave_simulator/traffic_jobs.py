"""Jobs whose collectives are simulated: programs, hosts, clocks, what their profilers say."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from traceweave_simulator import ring

Floats = npt.NDArray[np.float64]

Labels = Literal["named", "communicator", "stream", "old", "bare"]
"""What a profiler says of a call besides operation and stream. named: group, members, size, type
and number (`Job.with_seq`), as Kineto since torch 2.2; communicator: its hash, size and the bytes,
as nsys with payloads; stream: bytes and type; old: the same in whole microseconds, from the
operator around the launch, as Kineto before; bare: nothing, as nsys without payloads."""


@dataclass(frozen=True)
class Op:
    """One collective of a step: over which sort of group, what, how large, how long it takes."""

    group: str
    """'world', 'tp' (inside a host), 'dp' (across hosts), or 'pp3': from stage 3 to 4; 'pp-3':
    back."""
    op: str
    bytes: int
    transfer_us: float
    compute_us: float = 500.0
    synchronous: bool = False
    """On the stream of the computation, not on its group's."""


DDP = (
    Op("world", "all_reduce", 26_214_400, 400.0, 1500.0),
    Op("world", "all_reduce", 26_214_400, 400.0, 900.0),
    Op("world", "all_reduce", 4_194_304, 90.0, 700.0),
    Op("world", "all_gather", 4096, 25.0, 2500.0),
)
FSDP = (
    Op("world", "all_gather", 77_266_944, 220.0, 600.0),
    Op("world", "all_gather", 150_994_944, 350.0, 900.0),
    Op("world", "reduce_scatter", 150_994_944, 430.0, 900.0),
    Op("world", "reduce_scatter", 77_266_944, 260.0, 700.0),
)
TP_DP = (
    Op("tp", "all_reduce", 8_388_608, 120.0, 300.0),
    Op("tp", "all_reduce", 8_388_608, 120.0, 400.0),
    Op("dp", "reduce_scatter", 67_108_864, 420.0, 800.0),
    Op("dp", "all_gather", 67_108_864, 390.0, 300.0),
)
TP_DP_ALIKE = (
    Op("tp", "all_reduce", 33_554_432, 190.0, 350.0),
    Op("tp", "all_reduce", 33_554_432, 190.0, 500.0),
    Op("tp", "all_reduce", 33_554_432, 190.0, 450.0),
    Op("tp", "all_reduce", 33_554_432, 190.0, 600.0),
    Op("dp", "all_reduce", 33_554_432, 230.0, 900.0),
    Op("dp", "all_reduce", 33_554_432, 230.0, 400.0),
)
"""Nothing but the stream tells the groups apart."""
TWO_STREAMS = (
    Op("world", "all_reduce", 26_214_400, 380.0, 1500.0),
    Op("world", "all_reduce", 26_214_400, 380.0, 900.0),
    Op("world", "all_reduce", 26_214_400, 380.0, 700.0),
    Op("world", "all_reduce", 8, 22.0, 400.0, synchronous=True),
)
UNIFORM = (Op("world", "all_reduce", 1_048_576, 60.0, 1000.0),)


def pipeline(stages: int) -> tuple[Op, ...]:
    """Return two microbatches forward and back through `stages`, one stage per host, and the
    gradients over the ranks of each stage."""
    size, time = 33_554_432, 150.0
    forth = tuple(Op(f"pp{s}", "send", size, time, 700.0) for s in range(stages - 1))
    back = tuple(Op(f"pp-{s}", "send", size, time, 900.0) for s in reversed(range(stages - 1)))
    gradients = Op("tp", "all_reduce", 67_108_864, 420.0, 600.0)
    return (*forth, *forth, *back, *back, gradients)


def three_axes(stages: int) -> tuple[Op, ...]:
    """Return a step of tensor, pipeline and data parallelism: 50 collectives on ranks of inner
    stages, most of them inside a host, two of all ranks."""
    tp = Op("tp", "all_reduce", 33_554_432, 190.0, 350.0)
    forth = tuple(Op(f"pp{s}", "send", 16_777_216, 90.0, 300.0) for s in range(stages - 1))
    back = tuple(
        Op(f"pp-{s}", "send", 16_777_216, 90.0, 300.0) for s in reversed(range(stages - 1))
    )
    dp = (
        Op("dp", "reduce_scatter", 67_108_864, 420.0, 800.0),
        Op("dp", "all_gather", 67_108_864, 390.0, 300.0),
    )
    world = (Op("world", "all_reduce", 8, 40.0, 400.0),)
    return (*(tp,) * 20, *forth, *(tp,) * 20, *back, *dp, *world, *dp, *world)


def pipeline_dp(stages: int) -> tuple[Op, ...]:
    """Return a pipeline with two microbatches in turns, and two all-reduces of one size over the
    ranks of each stage."""
    size, time = 33_554_432, 150.0
    forth = tuple(Op(f"pp{s}", "send", size, time, 700.0) for s in range(stages - 1))
    back = tuple(Op(f"pp-{s}", "send", size, time, 900.0) for s in reversed(range(stages - 1)))
    reduce = Op("tp", "all_reduce", 67_108_864, 420.0, 600.0)
    return (*forth, *back, *forth, *back, reduce, reduce)


@dataclass(frozen=True)
class Job:
    """The parameters of a simulated run; times in us unless named otherwise."""

    hosts: int = 2
    per_host: int = 4
    stages: int | None = None
    """Consecutive hosts are so many stages of a pipeline, data-parallel inside; None: hosts are
    stages for 'pp', and data-parallel for 'dp'."""
    steps: int = 50
    program: tuple[Op, ...] = DDP
    offset_s: float = 1.0
    drift_ppm: float = 50.0
    own_clocks: bool = False
    """A clock per rank, not per host."""
    gpu_us: float = 0.0
    """Clocks of GPUs of one host differ by up to this."""
    end_jitter: float = 10.0
    ring_wave: float = 0.0
    """Median height of the wave around whoever arrived last, at ring.REFERENCE_US of transfer."""
    ring_center: ring.Center = "last"
    ring_bias: float = 30.0
    """Height of the systematic part, at ring.REFERENCE_US of transfer."""
    ring_shape: ring.Shape = "v"
    ring_law: ring.Law = "linear"
    skews: Floats | None = field(default=None, compare=False, repr=False)
    """Skews of real ends, us, a row per instance, drawn anew for every instance in place of the
    lags and jitter above."""
    skew_scale: float = 1.0
    compute_noise: float = 0.05
    hiccup_us: float = 0.0
    """One call in four starts late by this on average, exponentially."""
    transfer_noise: float = 0.0
    straggler_ms: float = 0.0
    """Delay of one rank before one collective of every 20th step."""
    one_straggler: bool = True
    """Always the same rank; False: drawn anew."""
    with_seq: bool = True
    listed: int | None = None
    """Profilers list the members of groups no larger than this (Kineto cuts lists of more than 30),
    and name every group by a number of its own, as torch does; None: all of them, named by kind."""
    labels: Labels | tuple[Labels, ...] = "named"
    """What the profilers say of a call; several: one per host, in turns."""
    stream_per_pair: bool = False
    """Every pair of ranks has a stream for its messages; False: all share one."""
    with_steps: bool = False
    with_hosts: bool = False
    cut: int = 0
    """Up to this many calls are missing at each end of each rank's recording."""
    lost: float = 0.0
    """Probability that a call is missing from a rank's trace."""
    jump_us: float = 0.0
    """Step of every other clock in the middle of the run."""
    wander_us: float = 0.0
    """Amplitude of a slow sine of every clock but the first."""
    step_apart_us: float = 0.0
    """Every clock steps once, by two thirds of this to all of it, at a moment of its own."""
    wander_apart_us: float = 0.0
    """Every clock wanders by up to this, each in its own way."""
    seed: int = 0

    @property
    def world(self) -> int:
        """Number of ranks."""
        return self.hosts * self.per_host

    def labels_of(self, rank: int) -> Labels:
        """Return what this rank's profiler says of its calls."""
        kinds = (self.labels,) if isinstance(self.labels, str) else self.labels
        return kinds[rank // self.per_host % len(kinds)]
