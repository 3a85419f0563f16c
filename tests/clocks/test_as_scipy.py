"""What is done without SciPy, which takes long to import, against SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from traceweave.clocks.first_estimate import connect
from traceweave.clocks.matrices import Block
from traceweave.clocks.positive import FEW, Positive

RNG = np.random.default_rng(2)


@pytest.mark.parametrize("size", [1, 40, FEW])
def test_equations_whose_unknowns_differ_by_many_orders_are_solved_as_scipy_does(size: int) -> None:
    ends = RNG.normal(size=(3 * size, size))
    unit = 10.0 ** RNG.uniform(-8, 8, size)
    unit[0] = 1e15  # a wave that no one has seen
    matrix, right = (ends.T @ ends) * unit * unit[:, None], RNG.normal(size=(size, 3))

    found = Positive(matrix).solve(right * unit[:, None])

    expected = cho_solve(cho_factor(matrix), right * unit[:, None])
    assert np.allclose(found * unit[:, None], expected * unit[:, None], rtol=1e-9, atol=1e-12)


def block(ranks: list[int], instances: int) -> Block:
    """Instances of a group that ranks miss at random."""
    ends = RNG.normal(size=(instances, len(ranks)))
    ends[RNG.uniform(size=ends.shape) < 0.3] = np.nan
    return Block(np.array(ranks), ends, ends, np.ones(instances), (0, 0), True)


@pytest.mark.parametrize("groups", range(0, 12, 2))
def test_ranks_are_connected_by_the_tree_that_scipy_finds(groups: int) -> None:
    ranks = 12
    members = [RNG.choice(ranks, RNG.integers(2, 4), replace=False) for _ in range(groups)]
    blocks = [block(sorted(some.tolist()), 4) for some in members]

    component, tree = connect(blocks, ranks)

    shared = np.zeros((ranks, ranks))
    for one in blocks:
        there = np.isfinite(one.end).astype(float)
        shared[np.ix_(one.ranks, one.ranks)] += there.T @ there
    first, second = np.nonzero(np.triu(shared, 1))
    cost = coo_matrix((1 / shared[first, second], (first, second)), (ranks, ranks))
    assert component.tolist() == connected_components(cost, directed=False)[1].tolist()
    edges = minimum_spanning_tree(cost).tocoo()
    expected = set(zip(edges.row.tolist(), edges.col.tolist(), strict=True))
    assert {(a, b) for a, beside in enumerate(tree) for b in beside if a < b} == expected
