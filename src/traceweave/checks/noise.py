"""How far one more recording of the same code may be from several: what no rule should stop.

A number of k baselines with mean m and standard deviation s (k - 1 degrees of freedom) leaves the
next recording, if nothing but noise differs and noise is normal, with 95 % below the one-sided
prediction limit m + t(0.95; k - 1) * s * sqrt(1 + 1/k) (P. M. Berthouex, L. C. Brown: Statistics
for Environmental Engineers, 2nd ed., 2002, chapter 21). Two baselines hardly tell what noise there
is, and the limit says so: 7.73 s; three make it 3.37 s, five 2.34 s, ten 1.92 s.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

CONFIDENCE = 0.95
"""Of as many recordings in which nothing changed a number is within its noise."""


def noise_of(values: Sequence[float]) -> float | None:
    """Return how far from their mean one more value may be; None for fewer than two."""
    count = len(values)
    if count < 2:
        return None
    from scipy.special import stdtrit  # the inverse of Student's t distribution

    spread = statistics.stdev(values) * math.sqrt(1 + 1 / count)
    return float(stdtrit(count - 1, CONFIDENCE)) * spread
