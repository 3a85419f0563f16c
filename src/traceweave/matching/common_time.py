"""The clocks of all ranks, coarsely, as far as calls that are already matched tie them.

Good to some tens of us: enough to tell which calls of two ranks may be one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from traceweave.arrays import Ints
from traceweave.matching.buffered import LEAST, ends_coincide
from traceweave.matching.calls import Calls, SameClock
from traceweave.matching.coarse_clocks import Curve, fit_curve, on_clock

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


class CommonTime:
    """Which ranks are tied to each other, and every rank's clock against that of one of them."""

    def __init__(self, calls: Calls, instance: Ints, same_clock: SameClock) -> None:
        matched = np.flatnonzero(ends_coincide(calls, instance))
        self._ranks, rank = np.unique(calls.rank, return_inverse=True)
        self._place = {r: place for place, r in enumerate(self._ranks.tolist())}
        self._component: Ints = np.arange(len(self._ranks))
        self._curve: dict[int, Curve] = {}
        if len(self._ranks) < 2:
            return
        # slow to import, and a run of one rank has no use for it
        from scipy.sparse import coo_matrix, csr_matrix
        from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

        shape = (len(self._ranks), int(instance.max(initial=-1)) + 1)
        present = csr_matrix((np.ones(len(matched)), (rank[matched], instance[matched])), shape)
        shared = (present @ present.T).tocoo()
        kept = (shared.row != shared.col) & (shared.data >= LEAST)
        hosts = self._hosts(same_clock)
        # a host's clock is known to a millisecond, matched calls tell more
        cost = np.r_[1 / shared.data[kept], np.ones(len(hosts))]
        pairs = np.vstack([np.c_[shared.row[kept], shared.col[kept]], hosts])
        graph = coo_matrix((cost, (pairs[:, 0], pairs[:, 1])), (len(self._ranks),) * 2)
        self._component = connected_components(graph, directed=False)[1].astype(np.int64)
        ends = [self._ends(calls, instance, matched[rank[matched] == r]) for r in range(shape[0])]
        self._follow(csr_matrix(minimum_spanning_tree(graph)), ends)

    def _hosts(self, same_clock: SameClock) -> Ints:
        """Pairs of places of ranks that are known to have one clock, enough to connect them."""
        first: list[int] = []
        pairs = []
        for place, rank in enumerate(self._ranks.tolist()):
            known = [f for f in first if same_clock(int(self._ranks[f]), rank)]
            if known:
                pairs.append((known[0], place))
            else:
                first.append(place)
        return np.array(pairs, dtype=np.int64).reshape(-1, 2)

    @staticmethod
    def _ends(calls: Calls, instance: Ints, index: Ints) -> tuple[Ints, Ints]:
        """Instances of one rank, ascending, and when they ended."""
        found, first = np.unique(instance[index], return_index=True)
        return found, calls.end[index[first]]

    def _follow(self, tree: csr_matrix, ends: list[tuple[Ints, Ints]]) -> None:
        """Bring every rank on the clock of its component's first, from neighbour to neighbour."""
        from scipy.sparse.csgraph import breadth_first_order

        for root in np.unique(self._component, return_index=True)[1]:
            order, parent = breadth_first_order(tree, root, directed=False)
            for rank in order[1:]:
                (mine, at), (theirs, there) = ends[rank], ends[parent[rank]]
                _, i, j = np.intersect1d(mine, theirs, assume_unique=True, return_indices=True)
                above = self._curve.get(int(parent[rank]))
                if len(i) < LEAST:
                    if above is not None:
                        self._curve[int(rank)] = above
                    continue
                common = there[j].astype(np.float64) if above is None else above.apply(there[j])
                self._curve[int(rank)] = fit_curve(at[i].astype(np.float64), common - at[i])

    def tied(self, rank: int, other: int) -> bool:
        """Whether matched calls or a host tie the clocks of two ranks, in one step or several."""
        return bool(self._component[self._place[rank]] == self._component[self._place[other]])

    def parts(self) -> dict[int, int]:
        """Return the number of the part of tied ranks that each rank is in."""
        return dict(zip(self._ranks.tolist(), self._component.tolist(), strict=True))

    def shown(self, rank: int, calls: Calls) -> Calls:
        """Return calls of a rank on the clock that its component has in common."""
        curve = self._curve.get(self._place[rank])
        return calls if curve is None else on_clock(calls, curve)
