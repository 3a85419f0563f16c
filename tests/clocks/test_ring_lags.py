"""How large lags are: traces of an inverse from random vectors, against those of the inverse."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from traceweave.arrays import Floats
from traceweave.clocks.elimination import Elimination
from traceweave.clocks.ring_lags import INERTIA, LEAST, PROBES, learn

SIZES = {"four": 4, "hundred": 100, "four hundred": 400}
VARIANCE = {"four": 1e8, "hundred": 4.0, "four hundred": 1e-6}


def factor_of(matrix: Floats) -> Elimination:
    """Equations that are solved exactly."""
    solve = SimpleNamespace(size=len(matrix), solve=lambda right, _: np.linalg.solve(matrix, right))
    return cast("Elimination", solve)


def problem(seed: int) -> tuple[dict[str, Any], Floats, Floats, Floats]:
    """Places of sorts whose lags are of very unlike sizes, units, and equations in which all hang
    together: prior and ends, which say more of some sums of lags than of others."""
    rng = np.random.default_rng(seed)
    edges = np.cumsum([0, *SIZES.values()])
    order = rng.permutation(edges[-1])
    places = {sort: order[a:b] for sort, a, b in zip(SIZES, edges, edges[1:], strict=False)}
    unit = rng.uniform(1, 100, edges[-1])
    size = np.zeros(edges[-1])
    for sort, place in places.items():
        size[place] = np.sqrt(VARIANCE[sort]) * unit[place]
    ends = rng.normal(size=(300, edges[-1])) * rng.choice([0.02, 0.3], edges[-1]) / size
    return places, unit, size, np.diag(size**-2.0) + ends.T @ ends


@pytest.mark.parametrize("seed", range(5))
def test_sizes_of_lags_are_those_that_the_inverse_tells(seed: int) -> None:
    places, unit, size, matrix = problem(seed)
    told = np.random.default_rng(seed).normal(size=len(unit)) * size / unit
    first = {sort: 100 * value for sort, value in VARIANCE.items()}
    found = learn(dict(VARIANCE), dict(first), places, told, unit, factor_of(matrix))

    unknown = np.linalg.inv(matrix).diagonal() / size**2
    for sort, place in places.items():
        held = INERTIA * len(place)
        square = float(np.sum(told[place] ** 2)) + held * VARIANCE[sort]
        known = len(place) - unknown[place].sum()
        assert 0.05 * len(place) < known < 0.95 * len(place)
        far = 0.0 if sort == "four" else 4 * np.sqrt(2 * known / PROBES)
        assert abs(square / found[sort] - held - known) <= far + 1e-6 * known, sort


def test_lags_that_nothing_tells_keep_their_size() -> None:
    places, unit, size, _ = problem(0)
    nothing = np.zeros(len(unit))
    found = learn(dict(VARIANCE), VARIANCE, places, nothing, unit, factor_of(np.diag(size**-2.0)))
    assert found == pytest.approx(VARIANCE, rel=1e-9)


def test_lags_that_ends_tell_to_be_none_shrink_to_the_least() -> None:
    places, unit, size, _ = problem(0)
    nothing = np.zeros(len(unit))
    ends = factor_of(np.diag(1e9 * size**-2.0))
    variance = dict(VARIANCE)
    for _ in range(10):
        variance = learn(variance, VARIANCE, places, nothing, unit, ends)
    assert variance == pytest.approx({sort: LEAST**2 * VARIANCE[sort] for sort in VARIANCE})
