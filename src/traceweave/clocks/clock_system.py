"""The equations of all clocks and waves, lags eliminated: solved at once where they are few, else
step by step.

Steps are conjugate gradients'. What brings them near the answer at once is a solution of every
cluster of clocks that small groups tie, the others being as they are, and one of all clusters, each
moved as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from traceweave.arrays import Floats
from traceweave.clocks.clusters import modes_of
from traceweave.clocks.columns import Columns
from traceweave.clocks.equations import Layout
from traceweave.clocks.positive import Positive

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

DIRECT = 2_000
"""Unknowns up to which one matrix over all of them is factored."""
STEPS = 400
RIDGE = 1e-10


class Equations(Protocol):
    """What some groups say of clocks and waves."""

    @property
    def where(self) -> Columns:
        """Which of all unknowns move each of the groups'."""

    @property
    def matrices(self) -> Floats:
        """Stand side by side on the diagonal."""

    @property
    def thin(self) -> Floats | None:
        """thin.T @ thin is to be taken from that; None: nothing."""


class ClockSystem:
    """The equations factored once, for several right-hand sides."""

    def __init__(self, layout: Layout, groups: Sequence[Equations], precision: Floats) -> None:
        self._direct = layout.top <= DIRECT
        if self._direct:
            self._factor = Positive(_whole(groups, precision))
        else:
            self._prepare(layout, groups, precision)

    def _prepare(self, layout: Layout, groups: Sequence[Equations], precision: Floats) -> None:
        """The equations as they are gone through, and what is solved exactly in every step."""
        from scipy.sparse import csr_matrix, diags

        size, cluster = layout.top, layout.cluster
        matrix = csr_matrix((size + 1, size + 1))
        self._thin = []
        for some in groups:
            where = some.where.as_sparse()
            matrix = matrix + where.T @ _on_diagonal(some.matrices) @ where
            if some.thin is not None:
                self._thin.append((some.thin, csr_matrix(where[:, :size])))
        self._near = csr_matrix(matrix[:size, :size] + diags(precision))
        inside = np.flatnonzero(cluster >= 0)
        order = inside[np.argsort(cluster[inside], kind="stable")]
        first = np.searchsorted(cluster[order], np.arange(int(cluster.max()) + 1))
        turn = np.zeros(size, dtype=np.int64)
        turn[order] = np.arange(len(order)) - first[cluster[order]]
        self._members = np.full((len(first), int(turn.max()) + 1), size)
        self._members[cluster[order], turn[order]] = order
        own = np.zeros((*self._members.shape, self._members.shape[1]))
        own[:, np.arange(own.shape[1]), np.arange(own.shape[1])] = self._members == size
        entries = self._near.tocoo()
        kept = (cluster[entries.row] == cluster[entries.col]) & (cluster[entries.row] >= 0)
        row, column = entries.row[kept], entries.col[kept]
        own[cluster[row], turn[row], turn[column]] = entries.data[kept]
        own[:, np.arange(own.shape[1]), np.arange(own.shape[1])] *= 1 + RIDGE
        self._own = np.linalg.inv(own)
        offsets, clocks = layout.clocks
        waves = int((cluster < 0).sum())
        self._modes = modes_of(cluster, offsets, np.arange(offsets, clocks), waves)
        coarse = (self._modes.T @ self._near @ self._modes).toarray()
        for thin, where in self._thin:
            root = np.asarray((where @ self._modes).T @ thin.T)
            coarse -= root @ root.T
        coarse[np.diag_indices(len(coarse))] *= 1 + RIDGE
        self._coarse = Positive(coarse)

    def solve(self, right: Floats, error: float) -> Floats:
        """Return the unknowns, a column per column of `right`; the relative `error` is that of what
        is left, in the measure of the likelihood."""
        if self._direct:
            return self._factor.solve(right)
        answer, rest = np.zeros_like(right), right.copy()
        near = self._near_answer(rest)
        way, gain = near, np.sum(rest * near, axis=0)
        goal = error**2 * gain
        for _ in range(STEPS):
            ahead = self._times(way)
            length = gain / np.maximum(np.sum(way * ahead, axis=0), 1e-300)
            answer += length * way
            rest -= length * ahead
            near = self._near_answer(rest)
            before, gain = gain, np.sum(rest * near, axis=0)
            if (gain <= goal).all():
                break
            way = near + (gain / np.maximum(before, 1e-300)) * way
        return answer

    def _times(self, values: Floats) -> Floats:
        result = self._near @ values
        for thin, where in self._thin:
            result -= where.T @ (thin.T @ (thin @ (where @ values)))
        return np.asarray(result)

    def _near_answer(self, right: Floats) -> Floats:
        padded = np.vstack([right, np.zeros((1, right.shape[1]))])
        result = np.zeros_like(padded)
        result[self._members] = np.matmul(self._own, padded[self._members])
        whole = self._coarse.solve(self._modes.T @ right)
        return np.asarray(result[:-1] + self._modes @ whole)


def _whole(groups: Sequence[Equations], precision: Floats) -> Floats:
    """The equations as one matrix."""
    size = len(precision)
    matrix = np.zeros((size + 1, size + 1))
    for some in groups:
        some.where.add_to(matrix, some.matrices)
    whole = matrix[:size, :size] + np.diag(precision)
    for some in groups:
        if some.thin is not None:
            root = some.where.spread(some.thin.T)[:size]
            whole -= root @ root.T
    whole[np.diag_indices(size)] *= 1 + RIDGE
    return whole


def _on_diagonal(matrices: Floats) -> csr_matrix:
    """Matrices side by side as one."""
    from scipy.sparse import csr_matrix

    count, size = matrices.shape[:2]
    columns = np.repeat(np.arange(count * size).reshape(count, 1, size), size, axis=1)
    rows = size * np.arange(count * size + 1)
    return csr_matrix((matrices.ravel(), columns.ravel(), rows), (count * size,) * 2)
