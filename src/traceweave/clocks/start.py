"""Where the model of all clocks starts: which ranks are connected, which of a host read one clock,
and a line per rank, along a tree of the pairs that share most calls.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import breadth_first_order, connected_components, minimum_spanning_tree

from traceweave.arrays import Flags, Floats, Ints
from traceweave.clocks.clock import RankInfo
from traceweave.clocks.ends import LEAST, Ends, places
from traceweave.medians import medians

SAME_NS = 20_000.0
"""Ranks of one host whose ends lie no farther apart have one clock: CUPTI's conversion of a GPU's
timestamps is off by some microseconds."""
HOST_NS = 30_000.0
"""The same of ranks of a host that is named, in a stretch of time: GPUs of fsdp_2rank_before lie
25 us apart at first and 5 later."""
DRIFT = 3e-5
"""Standard deviation of the rate of a clock: crystals keep to 100 ppm, three of it."""
SIGMAS = 4.0
"""Standard errors that the median of a stretch lies off by chance."""
PARTS, PART = 8, 16
"""Stretches of time in which ends of one host have to agree, at most, and calls in each."""
MANY = 256
"""Ranks beyond which those without a named host are not compared pair by pair, and what each is
constantly off is found after the clocks."""


@dataclass
class Start:
    """One value per rank, by its place in the list of ranks."""

    root: Ints
    """The rank on whose clock each rank is told: one of all that calls or a host connect."""
    unit: Ints
    """Ranks with one number have one clock; numbered from 0."""
    offset: Floats
    """What to add to a local time: offset + drift * (local - middle)."""
    drift: Floats
    middle: Floats

    def added(self, rank: Ints, local: Floats) -> Floats:
        """What the first lines add to local times of ranks."""
        return np.asarray(self.offset[rank] + self.drift[rank] * (local - self.middle[rank]))


def start_from(
    ranks: list[RankInfo], ends: Ends, origin_ns: int, reference: int | None, same_host: bool
) -> Start:
    """Return first lines; `reference` is the number of the rank whose clock is the common one of
    its component, else the lowest is; without `same_host`, hosts say nothing."""
    count = len(ranks)
    middle = np.array([(r.first_ns + r.last_ns) // 2 - origin_ns for r in ranks], dtype=np.float64)
    numbers = {name: number for number, name in enumerate({r.host for r in ranks} - {None})}
    host = np.array([numbers.get(r.host, -1) if same_host else -1 for r in ranks])
    low, high, apart, local = _stars(ends)
    tree = _tree(low, high, host)
    member = connected_components(tree, directed=False)[1]
    roots = np.unique(member, return_index=True)[1]
    for place in np.flatnonzero([info.rank == reference for info in ranks]):
        roots[member[place]] = place
    nothing = np.zeros(count)
    start = Start(roots[member], np.arange(count), nothing, nothing.copy(), middle)
    _chain(start, tree, low, high, apart, local)
    if same_host:
        _share(start, ends, host, np.array([info.on_gpu for info in ranks]))
    return start


def _stars(ends: Ends) -> tuple[Ints, Ints, Floats, Floats]:
    """Pairs of the first rank of an instance and each other one: the lower and the higher rank, by
    how much the end on the higher one lies after that on the lower one, and when on the latter."""
    hub = ends.first[ends.row]
    mine = np.flatnonzero(hub != np.arange(len(hub)))
    one, other = hub[mine], mine
    swapped = ends.rank[one] > ends.rank[other]
    low, high = np.where(swapped, other, one), np.where(swapped, one, other)
    apart = ends.local[high] - ends.local[low]
    return ends.rank[low], ends.rank[high], apart, ends.local[low]


def _tree(low: Ints, high: Ints, host: Ints) -> csr_matrix:
    """A tree of the pairs that share most calls, and of ranks of a host that only this connects."""
    count = len(host)
    code, number = np.unique(low * count + high, return_counts=True)
    order = np.argsort(host, kind="stable")
    mates = (np.diff(host[order]) == 0) & (host[order][1:] >= 0)
    beside = np.setdiff1d(order[:-1][mates] * count + order[1:][mates], code)
    code, far = np.r_[code, beside], np.r_[1 / number, np.full(len(beside), 2.0)]
    graph = csr_matrix((far, (code // count, code % count)), (count, count))
    return csr_matrix(minimum_spanning_tree(graph))


def _chain(
    start: Start, tree: csr_matrix, low: Ints, high: Ints, apart: Floats, at: Floats
) -> None:
    """Lines against the roots, to first order in rates: those of the tree's pairs, one after the
    other. They go by the medians of the earlier and of the later half of the differences of ends,
    as steep as clocks may be; ranks of a host without calls in common are not apart."""
    order: list[int] = []
    parent = np.full(len(start.root), -1)
    for root in np.unique(start.root):
        nodes, parents = breadth_first_order(tree, root, directed=False)
        parent[nodes[1:]] = parents[nodes[1:]]
        order += nodes[1:].tolist()
    down, mine = parent[high] == low, (parent[high] == low) | (parent[low] == high)
    rank = np.where(down, high, low)[mine]
    by, local = (np.where(down, *of)[mine] for of in ((-apart, apart), (at + apart, at)))
    known, pair = np.unique(rank, return_inverse=True)
    half = 2 * pair + (local >= medians(local, pair)[pair])
    when, off = (np.diff(medians(of, half).reshape(-1, 2))[:, 0] for of in (local, by))
    both = np.bincount(half).reshape(-1, 2).min(axis=1) > 0
    rate = np.where(both, np.clip(off / np.maximum(when, 1.0), -3 * DRIFT, 3 * DRIFT), 0.0)
    start.drift[known] = rate
    start.offset[known] = medians(by - rate[pair] * (local - start.middle[rank]), pair)
    for one in order:
        up, there = parent[one], start.middle[one] + start.offset[one]
        start.offset[one] += start.added(up, there)
        start.drift[one] += start.drift[up]


def _share(start: Start, ends: Ends, host: Ints, on_gpu: Flags) -> None:
    """Give ranks of one host one clock where their ends allow it: of a host that is named, where
    they say nothing else; of others where all that two share ends as on one."""
    one, other, same = _agreeing(ends, host, on_gpu)
    for number in range(int(host.max()) + 1):
        mates = np.flatnonzero(host == number)
        at = start.middle[mates].mean()
        added = start.added(mates, np.full(len(mates), at))
        near = np.argwhere(np.abs(added[:, None] - added) <= SAME_NS)
        near = mates[near[near[:, 0] < near[:, 1]]]
        silent = ~np.isin(near @ [len(host), 1], one * len(host) + other)
        one, other = np.r_[one, near[silent, 0]], np.r_[other, near[silent, 1]]
        same = np.r_[same, np.full(int(silent.sum()), True)]
    unnamed = (host < 0) & on_gpu
    if 1 < unnamed.sum() <= MANY:
        first, second, yes = _agreeing(ends, np.where(unnamed, 0, -1), on_gpu, sure=True)
        member = _linked(first[yes], second[yes], len(host))
        torn = member[first[~yes & (member[first] == member[second])]]
        kept = ~np.isin(member[first], torn)  # of strangers all have to go together
        one, other = np.r_[one, first[kept]], np.r_[other, second[kept]]
        same = np.r_[same, yes[kept]]
    member = _joined(one, other, same, len(host))
    lead = np.unique(member, return_index=True)[1][member]
    for root in np.unique(start.root):
        lead[member == member[root]] = root
    start.unit = np.asarray(np.unique(lead, return_inverse=True)[1], dtype=np.int64)
    start.offset, start.drift = start.added(lead, start.middle), start.drift[lead]


def _joined(one: Ints, other: Ints, same: Flags, count: int) -> Ints:
    """A number per rank, the same of those that pairs join which are the `same`; of ranks of which
    two are not, those stand alone first that differ from most."""
    while True:
        member = _linked(one[same], other[same], count)
        torn = ~same & (member[one] == member[other])
        if not torn.any():
            return member
        most = np.bincount(np.r_[one[torn], other[torn]])
        worst = np.flatnonzero(most == most.max())[-1]
        left = (one != worst) & (other != worst)
        one, other, same = one[left], other[left], same[left]


def _linked(one: Ints, other: Ints, count: int) -> Ints:
    """A number per rank, the same of those that pairs link."""
    graph = csr_matrix((np.ones(len(one)), (one, other)), (count, count))
    return np.asarray(connected_components(graph, directed=False)[1], dtype=np.int64)


def _agreeing(
    ends: Ends, host: Ints, on_gpu: Flags, sure: bool = False
) -> tuple[Ints, Ints, Flags]:
    """Each two ranks of a host that share calls, and whether these end as they do on one clock, in
    every stretch of time; if `sure`, only those of which it is known to SAME_NS. Of threads fewer
    than LEAST say when each got a core: they do where none ended before the other began."""
    count = len(host)
    every = np.maximum(np.bincount(ends.cell) // (PARTS * PART), 1)[ends.cell]
    few = ends.of_rows(places(ends.cell) % every == 0)
    mine = host[few.rank] >= 0
    order = np.flatnonzero(mine)[np.lexsort((few.rank[mine], host[few.rank[mine]], few.row[mine]))]
    rank, row, local, start = (of[order] for of in (few.rank, few.row, few.local, few.start))
    found = [(np.zeros(0, np.int64), np.zeros(0), np.zeros(0), np.zeros(0))]
    for lag in range(1, len(rank)):
        one, other = np.arange(len(rank) - lag), np.arange(lag, len(rank))
        both = (row[one] == row[other]) & (host[rank[one]] == host[rank[other]])
        if not both.any():
            break
        one, other = one[both], other[both]
        met = np.minimum(local[one], local[other]) >= np.maximum(start[one], start[other])
        found.append((rank[one] * count + rank[other], local[one], local[other] - local[one], met))
    code, at, apart, met = (np.concatenate(column) for column in zip(*found, strict=True))
    pairs, pair = np.unique(code, return_inverse=True)
    one, other = pairs // count, pairs % count
    threads = ~on_gpu[one] & ~on_gpu[other]
    agree, told = _within(pair, at, apart, threads, sure)
    calls = np.bincount(pair)
    agree |= threads & (calls < LEAST) & (np.bincount(pair, met) == calls)
    return one[told], other[told], agree[told]


def _within(
    pair: Ints, at: Floats, apart: Floats, threads: Flags, sure: bool
) -> tuple[Flags, Flags]:
    """Which pairs' differences have a median near 0 in each of up to PARTS stretches of time: as
    near as it is known, or, of threads, which end when they get a core, as most of them lie; if
    `sure`, nearer than SAME_NS, errors included. And of which pairs that is told: if `sure`, of
    those whose errors leave no doubt."""
    order = np.lexsort((at, pair))
    pair, apart = pair[order], apart[order]
    count = np.bincount(pair)
    parts = np.minimum(PARTS, -(-count // PART))
    part = places(pair) * parts[pair] // count[pair]
    number = np.cumsum(parts) - parts
    stretch = number[pair] + part
    middle = medians(apart, stretch)
    scatter = 1.4826 * medians(np.abs(apart - middle[stretch]), pair)
    distance = np.abs(apart - middle[stretch])
    farther = np.lexsort((distance, pair))[np.cumsum(count) - count + 95 * (count - 1) // 100]
    known = SIGMAS * 1.2533 * scatter * np.sqrt(parts / count)
    far = np.maximum.reduceat(np.abs(middle), number)
    if sure:
        same = (np.maximum(far, known) <= SAME_NS) & (count >= PART)
        return same, same | (far > np.maximum(known, HOST_NS))
    limit = np.maximum(np.maximum(HOST_NS, known), np.where(threads, distance[farther], 0.0))
    return far <= limit, np.ones(len(far), np.bool_)
