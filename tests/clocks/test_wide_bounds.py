"""Bounds of many ranks against those from a matrix of all pairs."""

from __future__ import annotations

import numpy as np
import pytest

from traceweave.clocks.bounds import close, pairwise
from traceweave.clocks.matrices import Block
from traceweave.clocks.wide_bounds import bound_widely

RANKS = 9


def groups(seed: int, off_ns: float) -> list[Block]:
    """Return a world with few instances, groups of three and messages; clocks are off by up to
    `off_ns`, which contradicts causality where it is more than transfers take."""
    rng = np.random.default_rng(seed)
    clock = rng.uniform(-off_ns, off_ns, RANKS)
    blocks = []
    members = [np.arange(RANKS), np.arange(3), np.arange(3, 6), np.array([0, 4, 8])]
    for number, ranks in enumerate(members):
        start = rng.uniform(0, 50, (2 + 4 * number, len(ranks)))
        end = start.max(axis=1, keepdims=True) + rng.uniform(10, 30, start.shape)
        wrong = rng.uniform(-0.2, 0.2, start.shape) * off_ns
        start, end = (of + clock[ranks] + wrong for of in (start, end))
        start[0, 0] = end[0, 0] = np.nan
        transfer = np.nanmin(end - start, axis=1)
        blocks.append(Block(ranks, start, end, transfer, (number, 0), True))
    sends = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    start = rng.uniform(0, 50, (3, 2)) + clock[[2, 7]]
    blocks.append(
        Block(np.array([2, 7]), start, start + 40, np.full(3, 40.0), (9, 2), False, sends)
    )
    return blocks


@pytest.mark.parametrize("off_ns", [0.0, 20.0, 100.0])
@pytest.mark.parametrize("seed", range(8))
def test_bounds_are_those_of_all_pairs(seed: int, off_ns: float) -> None:
    blocks = groups(seed, off_ns)
    dense, wide = close(pairwise(blocks, RANKS)), bound_widely(blocks, RANKS, [0])
    assert wide.slack_ns == dense.slack_ns
    for rank in range(RANKS):
        assert wide.against(rank, 0) == pytest.approx(dense.against(rank, 0), abs=1e-2)
    order = [4, *(rank for rank in range(RANKS) if rank != 4)]
    assert wide.moved(order) == pytest.approx(dense.moved(order), abs=1e-2)


def test_the_cases_have_conflicts_and_contradictions() -> None:
    found = [close(pairwise(groups(seed, 20.0), RANKS)) for seed in range(8)]
    assert any(bounds.moved(list(range(RANKS))).any() for bounds in found)
    found = [close(pairwise(groups(seed, 100.0), RANKS)) for seed in range(8)]
    assert any(bounds.slack_ns > 0 for bounds in found)
