"""What the clocks of hosts say at a true moment: offset, drift, steps, wander."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Clock:
    """Local time minus true time, ns, as a function of true ns since the job began."""

    offset_ns: float
    drift: float
    steps: tuple[tuple[float, float], ...] = ()
    waves: tuple[tuple[float, float, float], ...] = ()

    def local(self, true_ns: npt.ArrayLike) -> Array:
        """Return what the clock says."""
        t = np.asarray(true_ns, np.float64)
        value = t + self.offset_ns + self.drift * t
        for at, size in self.steps:
            value = value + size * (t >= at)
        for height, period, phase in self.waves:
            value = value + height * np.sin(2 * np.pi * t / period + phase)
        return np.asarray(value)

    def true(self, local_ns: npt.ArrayLike) -> Array:
        """Return when it says so; a time that a step skipped or repeats is taken near the step."""
        local = np.asarray(local_ns, np.float64)
        t = local - self.offset_ns
        for _ in range(6):
            t = t - (self.local(t) - local)
        return np.asarray(t)


@dataclass(frozen=True)
class Weather:
    """How good the clocks of a job are."""

    steps: int = 0
    step_us: tuple[float, float] = (200.0, 300.0)
    wander_us: float = 0.0
    per_rank: bool = False
    gpu_us: float = 2.0
    offset_s: float = 0.8
    drift_ppm: float = 40.0


def draw_clocks(
    weather: Weather, hosts: list[int], length_ns: float, rng: np.random.Generator
) -> list[Clock]:
    """Return each rank's clock; `hosts` says on which host each is."""
    owners = list(range(len(hosts))) if weather.per_rank else hosts
    clocks = {owner: _draw(weather, length_ns, rng) for owner in dict.fromkeys(owners)}
    of_ranks = []
    for owner in owners:
        clock = clocks[owner]
        gpu = float(rng.normal(0, 1e3 * weather.gpu_us / 2))
        of_ranks.append(Clock(clock.offset_ns + gpu, clock.drift, clock.steps, clock.waves))
    return of_ranks


def _draw(weather: Weather, length_ns: float, rng: np.random.Generator) -> Clock:
    steps = tuple(
        (
            float(rng.uniform(0.15, 0.85) * length_ns),
            float(rng.choice([-1, 1]) * rng.uniform(*weather.step_us) * 1e3),
        )
        for _ in range(weather.steps)
    )
    waves = tuple(
        (
            weather.wander_us * 1e3 * float(rng.uniform(0.3, 0.7)),
            float(rng.uniform(2.0, 12.0) * 1e9),
            float(rng.uniform(0, 2 * np.pi)),
        )
        for _ in range(2 if weather.wander_us else 0)
    )
    return Clock(
        float(rng.uniform(-1, 1) * weather.offset_s * 1e9),
        float(rng.uniform(-1, 1) * weather.drift_ppm * 1e-6),
        steps,
        waves,
    )
