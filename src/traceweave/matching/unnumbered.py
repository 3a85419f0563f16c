"""Calls without a sequence number among numbered ones, as those launched before the profiler's
window began: the numbered ones tie the clocks, so order and time tell what they are.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from traceweave.arrays import Ints
from traceweave.matching.alignment import causal
from traceweave.matching.by_order import continued
from traceweave.matching.by_time import match_by_time
from traceweave.matching.calls import PROVES, Calls
from traceweave.matching.coarse_clocks import Line, fit_curve
from traceweave.matching.outcome import Matches

REFERENCES = 2
"""Ranks that all others are compared with in turn: one may lack a call that others have."""
LEAST = 8
"""Numbered calls that two ranks need in common."""


def match_unnumbered(calls: Calls, index: Ints, matches: Matches) -> None:
    """Match those of the calls at `index`, all of one group, that have no number with calls of the
    ranks that have most matched ones, one after the other.
    """
    index = index[calls.on_gpu[index]]
    bare = (calls.seq[index] < 0) & (matches.instance[index] < 0)
    # a call whose number was refused takes no part
    index = index[bare | (matches.instance[index] >= 0)]
    by_rank = {int(rank): index[calls.rank[index] == rank] for rank in np.unique(calls.rank[index])}
    many = {r: int((matches.instance[mine] >= 0).sum()) for r, mine in by_rank.items()}
    for reference in sorted(many, key=lambda r: -many[r])[:REFERENCES]:
        others = [mine for rank, mine in by_rank.items() if rank != reference]
        pairs = [_pairs(calls, mine, by_rank[reference], matches.instance) for mine in others]
        if pairs:
            _join(calls, index, np.vstack(pairs), matches)


def _pairs(calls: Calls, mine: Ints, theirs: Ints, instance: Ints) -> Ints:
    """Calls of two ranks that end together, of which at least one has no instance; they go on from
    those that share one.
    """
    known = instance[mine], instance[theirs]
    shared, i, j = np.intersect1d(*known, return_indices=True)
    i, j = i[shared >= 0], j[shared >= 0]
    bare = any((of < 0).any() for of in known)
    if len(i) < LEAST or not bare:
        return np.zeros((0, 2), dtype=np.int64)
    a, b = calls.take(mine), calls.take(theirs)
    clock = fit_curve(a.end[i].astype(np.float64), (b.end[j] - a.end[i]).astype(np.float64))
    start, end = (np.rint(clock.apply(t)).astype(np.int64) for t in (a.start, a.end))
    a = replace(a, start=start, end=end)
    line = Line(0.0, 0.0, 0.0, float(np.median(np.abs(a.end[i] - b.end[j]))))
    partner = np.full(len(a), -1, dtype=np.int64)
    partner[i] = j
    match_by_time(a, b, line, partner)
    new = np.setdiff1d(np.flatnonzero(partner >= 0), i)
    new = new[(known[0][new] < 0) | (known[1][partner[new]] < 0)]
    new = new[~PROVES[a.op[new]] | causal(a, new, b, partner[new], line)]
    new = new[continued(new, known[0], partner[new], known[1])]
    return np.asarray(np.c_[mine[new], theirs[partner[new]]])


def _join(calls: Calls, index: Ints, pairs: Ints, matches: Matches) -> None:
    """Give the calls of pairs, those of one rank on the right, one instance: that which either side
    has, if all pairs agree, or a new one.
    """
    mine, theirs = pairs.T
    told = matches.instance[mine]
    numbered = told >= 0
    known = np.unique(np.c_[theirs, told][numbered], axis=0)
    once = [np.unique(of, return_inverse=True, return_counts=True)[1:] for of in known.T]
    alone = np.logical_and(*(count[place] == 1 for place, count in once))
    _accept(calls, index, known[alone], matches)
    rest = ~numbered & ~np.isin(theirs, known[~alone, 0])
    bare = np.unique(theirs[rest & (matches.instance[theirs] < 0)])
    new = matches.next_instance + np.arange(len(bare))
    _accept(calls, index, np.c_[bare, new], matches)
    _accept(calls, index, np.c_[mine, matches.instance[theirs]][rest], matches)


def _accept(calls: Calls, index: Ints, told: Ints, matches: Matches) -> None:
    """Give calls their instances, unless their rank has another call of that instance."""
    there = np.c_[calls.rank, matches.instance][index]
    new = np.c_[calls.rank[told[:, 0]], told[:, 1]]
    number = np.unique(np.vstack([there, new]), axis=0, return_inverse=True)[1].ravel()
    told = told[~np.isin(number[len(there) :], number[: len(there)])]
    matches.accept(told[:, 0], told[:, 1], "sequence-aligned")
