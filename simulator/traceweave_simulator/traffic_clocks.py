"""The clocks of simulated ranks: offsets, drifts, steps and wander, one clock per host or per rank.

Every clock has its own: hosts do not step at one moment, nor do they wander alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from traceweave_simulator.traffic_jobs import Job

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

WAVES = 3
"""Sines that a clock's own wander is the sum of."""


@dataclass(frozen=True)
class Clocks:
    """What the clock of every rank shows at a true time; arrays have one value per clock, but for
    `of_rank` and `gpu`, which have one per rank.
    """

    of_rank: Ints
    gpu: Floats
    """What a GPU's timestamps are ahead of its clock, ns."""
    offset: Floats
    drift: Floats
    step_at: Floats
    step: Floats
    """By how much, ns, the clock steps, and when from the middle of the run."""
    height: Floats
    period: Floats
    phase: Floats
    """Of the sines of its wander, a row per clock."""
    middle: float

    def local(self, rank: int, true_ns: Floats) -> Floats:
        """Return the rank's own clock at true times."""
        t = true_ns - self.middle
        n = int(self.of_rank[rank])
        local = true_ns - self.offset[n] - self.drift[n] * t + self.gpu[rank]
        local = local + self.step[n] * (t > self.step_at[n])
        waves = zip(self.height[n], self.period[n], self.phase[n], strict=True)
        for height, period, phase in waves:
            local = local + height * np.sin(2 * np.pi * t / period + phase)
        return np.asarray(local, dtype=np.float64)


def draw_clocks(job: Job, span_ns: float, rng: np.random.Generator) -> Clocks:
    """Return clocks as the job asks for them."""
    of_rank = np.arange(job.world) // (1 if job.own_clocks else job.per_host)
    count = int(of_rank.max()) + 1
    offset = rng.uniform(-job.offset_s, job.offset_s, count) * 1e9
    drift = rng.uniform(-job.drift_ppm, job.drift_ppm, count) * 1e-6
    gpu = rng.uniform(-job.gpu_us, job.gpu_us, job.world) * 1e3
    host = np.arange(count)
    step_at, step = np.zeros(count), np.where(host % 2 == 1, job.jump_us * 1e3, 0.0)
    height, period = np.zeros((count, WAVES)), np.full((count, WAVES), span_ns)
    phase = np.zeros((count, WAVES))
    height[:, 0] = job.wander_us * 1e3 * (host > 0)
    phase[:, 0] = 2 * np.pi * 0.13 * host
    if job.step_apart_us:
        own = np.random.default_rng((job.seed, 11))
        step_at = own.uniform(-0.35, 0.35, count) * span_ns
        step = own.choice([-1.0, 1.0], count) * own.uniform(2 / 3, 1.0, count)
        step = step * job.step_apart_us * 1e3
    if job.wander_apart_us:
        own = np.random.default_rng((job.seed, 12))
        height = own.uniform(0.3, 1.0, height.shape)
        height *= job.wander_apart_us * 1e3 / height.sum(axis=1, keepdims=True)
        period = own.uniform(0.6, 2.5, height.shape) * span_ns
        phase = own.uniform(0, 2 * np.pi, height.shape)
    return Clocks(of_rank, gpu, offset, drift, step_at, step, height, period, phase, span_ns / 2)
