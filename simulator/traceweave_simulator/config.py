"""What to simulate: the run, the machine, the clocks, and what goes wrong in it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from traceweave_simulator.errors import SimulationError

Times = npt.NDArray[np.int64]
"""Integer nanoseconds."""

Parallelism = Literal["ddp", "fsdp", "tp", "pp"]
GapCause = Literal["launch_bound", "sync", "dependency", "data_loading"]

PARALLELISMS = ("ddp", "fsdp", "tp", "pp")
GAP_CAUSES = ("launch_bound", "sync", "dependency", "data_loading")


@dataclass(frozen=True)
class Clock:
    """What a rank's clock shows: true time plus an offset, a constant drift and a slow wander.

    local = true + offset_ns + drift_ppm * 1e-6 * elapsed + wander_ns * sin(2 pi elapsed / period),
    rounded to ns, where elapsed counts from the run's start.
    """

    offset_ns: int = 0
    drift_ppm: float = 0.0
    wander_ns: int = 0
    wander_period_ns: int = 10_000_000_000

    def local(self, elapsed_ns: Times, start_ns: int) -> Times:
        """Return the local epoch times of `elapsed_ns`, counted from the run's start at epoch
        `start_ns`."""
        local = elapsed_ns + (start_ns + self.offset_ns)
        if self.drift_ppm:
            local = local + np.rint(elapsed_ns * (self.drift_ppm * 1e-6)).astype(np.int64)
        if self.wander_ns:
            phase = elapsed_ns * (2 * np.pi / self.wander_period_ns)
            local = local + np.rint(self.wander_ns * np.sin(phase)).astype(np.int64)
        return local


@dataclass(frozen=True)
class Gap:
    """A stretch without GPU work, caused on purpose at a known place of a step.

    launch_bound: the host computes `duration_ns` between two operators of the forward pass, in the
    step's middle. sync: the host sits `duration_ns` in cudaDeviceSynchronize after the device is
    done. data_loading: the data loader takes `duration_ns` longer. dependency: the compute stream
    waits for a copy of `duration_ns` on a copy stream (a gap of the compute stream only).
    """

    cause: GapCause
    duration_ns: int
    step: int | None = None
    """Position of the step in the run, from 0; None: every step."""
    ranks: tuple[int, ...] | None = None
    """None: every rank."""


@dataclass(frozen=True)
class Config:
    """A distributed training run; every duration in ns, every size in bytes."""

    ranks: int = 8
    hosts: int = 1
    """Ranks are dealt to hosts in blocks. Ranks of one host share one clock."""
    steps: int = 4
    layers: int = 12
    seed: int = 0
    first_step: int = 1
    """Number of the first step, as in ProfilerStep#1."""
    start_ns: int = 1_776_500_000_000_000_000
    """UTC epoch ns of the run's start."""

    clocks: Mapping[int, Clock] = field(default_factory=dict)
    """Clocks of single ranks; they win over the random ones."""
    clock_offset_ns: int = 0
    """Offsets are drawn uniformly from +- this, per host; per rank if `hosts` is 1, as if each
    rank had its own."""
    clock_drift_ppm: float = 0.0
    """Drifts are drawn like the offsets."""

    parallelism: Parallelism = "ddp"
    group_size: int | None = None
    """Ranks of a tensor-parallel group or stages of a pipeline; None: all. The other axis is
    data parallel."""
    overlap: bool = True
    """False: the compute stream waits for each collective at once."""
    shared_stream: bool = False
    """Collectives run on the compute stream, in the order of their launches."""
    bucket_layers: int = 2
    """Layers whose gradients travel in one all-reduce."""
    bucket_parts: int = 1
    """All-reduces that carry these gradients, of equal size."""
    layer_bytes: int = 50_331_648
    """Size of one layer's parameters, and of its gradients."""
    activation_bytes: int = 33_554_432
    """Size of what a tensor-parallel all-reduce or a pipeline send carries."""
    microbatches: int = 4
    """Of the pipeline."""
    last_stage_layers: int = 0
    """Further layers of the pipeline's last stage."""
    alpha_ns: int = 12_000
    """Latency of a collective."""
    beta_gbps: float = 220.0
    """Bus bandwidth, decimal GB/s."""

    compute_scale: float = 1.0
    """Multiplies the duration of every compute kernel."""
    kernel_jitter: float = 0.03
    """Sigma of the log-normal factor on every kernel's duration; 0: none."""
    host_jitter: float = 0.1
    """The same for the host's times."""
    launch_latency_ns: int = 4_500
    """From the start of a launching call to the earliest start of its kernel."""
    kernel_spacing_ns: int = 800
    """Least distance between two kernels of one stream."""
    data_loading_ns: int = 150_000
    """Time the data loader takes per step."""
    pageable_bytes: int = 0
    """Further bytes of each step's batch, copied from pageable memory while the host waits."""
    pageable_gbps: float = 6.0
    """Rate of that copy, decimal GB/s."""
    sync_every_step: bool = True
    """The host reads the loss at the end of a step, and so waits for the compute stream."""
    sync_return_ns: int = 6_000
    """From the end of the awaited work to the return of the synchronizing call."""
    extra_host_ops: int = 0
    """Further small operators before every kernel launch: more events, larger files."""
    cuda_sync_events: bool = False
    """Kineto traces have an event per synchronization: which stream waits for which event."""

    straggler: Mapping[int, int] = field(default_factory=dict)
    """rank -> extra ns of compute per step, spread evenly over its compute kernels."""
    slow_host: Mapping[int, int] = field(default_factory=dict)
    """rank -> extra ns of host time per kernel launch."""
    end_jitter_ns: int = 0
    """A collective ends up to this much later on each rank, at random."""
    ring_bias_ns: int = 0
    """A collective ends later by 0 on the group's first rank to this much on its last."""
    slow_link: Mapping[int, float] = field(default_factory=dict)
    """rank -> factor on the bytes' time in every collective that it takes part in."""
    stall_share: float = 0.0
    """Share of the collectives, drawn at random, whose transfer takes `stall_ns` longer."""
    stall_ns: int = 0
    start_spread_ns: int = 50_000
    """Ranks start the first step within this time."""
    gaps: tuple[Gap, ...] = ()
    window_cut: Mapping[int, int] = field(default_factory=dict)
    """rank -> k: its recording begins after its first k collectives; k < 0: ends before its last
    -k."""

    def __post_init__(self) -> None:
        """Refuse what cannot be simulated."""
        for name in (
            "ranks",
            "hosts",
            "steps",
            "layers",
            "bucket_layers",
            "bucket_parts",
            "microbatches",
        ):
            if getattr(self, name) < 1:
                raise SimulationError(f"{name} must be at least 1; it is {getattr(self, name)}.")
        if self.parallelism not in PARALLELISMS:
            raise SimulationError(
                f"parallelism {self.parallelism!r} is unknown; one of {', '.join(PARALLELISMS)}."
            )
        if self.ranks % self.hosts:
            raise SimulationError(
                f"{self.ranks} ranks cannot be dealt evenly to {self.hosts} hosts."
            )
        size = self.model_parallel
        if size < 1 or self.ranks % size:
            raise SimulationError(f"group_size {size} does not divide {self.ranks} ranks.")
        if self.parallelism == "pp" and (size < 2 or self.layers < size):
            raise SimulationError(
                "a pipeline needs at least 2 stages and a layer for each of them."
            )
        self._refuse_what_goes_wrong()

    def _refuse_what_goes_wrong(self) -> None:
        """Refuse gaps of an unknown cause, and ranks that the run does not have."""
        for gap in self.gaps:
            if gap.cause not in GAP_CAUSES:
                raise SimulationError(
                    f"gap cause {gap.cause!r} is unknown; one of {', '.join(GAP_CAUSES)}."
                )
        by_rank = self.straggler, self.slow_host, self.slow_link, self.window_cut, self.clocks
        for ranks in (*by_rank, *(gap.ranks or () for gap in self.gaps)):
            for rank in ranks:
                if not 0 <= rank < self.ranks:
                    raise SimulationError(
                        f"there is no rank {rank}; they are 0 to {self.ranks - 1}."
                    )

    @property
    def model_parallel(self) -> int:
        """Return the size of the tensor-parallel group or the number of stages; 1 without
        either."""
        if self.parallelism in ("tp", "pp"):
            return self.ranks if self.group_size is None else self.group_size
        return 1

    @property
    def data_parallel(self) -> int:
        """Return the number of replicas of the model."""
        return self.ranks // self.model_parallel

    def host_of(self, rank: int) -> int:
        """Return the number of the host that `rank` sits on."""
        own_clocks = self.hosts == 1 and bool(self.clock_offset_ns or self.clock_drift_ppm)
        return rank if own_clocks else rank // (self.ranks // self.hosts)

    def rank_clocks(self) -> tuple[Clock, ...]:
        """Return the clock of every rank."""
        rng = np.random.default_rng((self.seed, 1))
        drawn = [
            Clock(round(offset * self.clock_offset_ns), float(drift * self.clock_drift_ppm))
            for offset, drift in rng.uniform(-1, 1, (self.ranks, 2))
        ]
        return tuple(self.clocks.get(r, drawn[self.host_of(r)]) for r in range(self.ranks))

    def quiet(self) -> Config:
        """Return the same run without any randomness: every rank does the same in the same time."""
        return replace(self, kernel_jitter=0.0, host_jitter=0.0, start_spread_ns=0, end_jitter_ns=0)
