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
from traceweave.clocks.ends import Ends, places
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
MOST_UNNAMED = 256
"""Ranks without a named host whose ends are compared pair by pair."""
ENOUGH = PARTS * PART
"""Calls of a cell that tell which ranks of a host agree."""


@dataclass
class Start:
    """One value per rank, by its place in the list of ranks."""

    component: Ints
    roots: dict[int, int]
    """Per component: the rank whose clock it is told on."""
    unit: Ints
    """Ranks with one number have one clock; numbered from 0."""
    offset: Floats
    """What to add to a local time: offset + drift * (local - middle)."""
    drift: Floats
    middle: Floats

    @property
    def root(self) -> Ints:
        """The rank on whose clock each rank is told."""
        return np.array([self.roots[int(number)] for number in self.component])

    def added(self, rank: Ints, local: Floats) -> Floats:
        """What the first lines add to local times of ranks."""
        return np.asarray(self.offset[rank] + self.drift[rank] * (local - self.middle[rank]))


def start_from(
    ranks: list[RankInfo], ends: Ends, origin_ns: int, reference: int | None, same_host: bool
) -> Start:
    """Return first lines; `reference` is the number of the rank whose clock is the common one of
    its component, else the lowest is; without `same_host`, hosts say nothing."""
    middle = np.array([(r.first_ns + r.last_ns) // 2 - origin_ns for r in ranks], dtype=np.float64)
    low, high, apart, local = _stars(ends, len(ranks))
    graph = _counts(low, high, len(ranks))
    tree = csr_matrix(minimum_spanning_tree(graph))
    component = np.asarray(connected_components(tree, directed=False)[1], dtype=np.int64)
    start = Start(
        component, {}, np.arange(len(ranks)), np.zeros(len(ranks)), np.zeros(len(ranks)), middle
    )
    start.roots = _roots(ranks, component, reference)
    lines = _pair_lines(tree, low, high, apart, local)
    for root in start.roots.values():
        _chain(start, tree, lines, root)
    if same_host:
        _share(start, ranks, ends, reference)
    return start


def _stars(ends: Ends, count: int) -> tuple[Ints, Ints, Floats, Floats]:
    """Pairs of the first rank of an instance and each other one: the lower and the higher rank, by
    how much the end on the higher one lies after that on the lower one, and when on the latter."""
    hub = ends.first[ends.row]
    mine = np.flatnonzero(hub != np.arange(len(hub)))
    one, other = hub[mine], mine
    swapped = ends.rank[one] > ends.rank[other]
    low, high = np.where(swapped, other, one), np.where(swapped, one, other)
    apart = ends.local[high] - ends.local[low]
    return ends.rank[low], ends.rank[high], apart, ends.local[low]


def _counts(low: Ints, high: Ints, count: int) -> csr_matrix:
    """A graph of the pairs, nearer the more calls they share."""
    code, number = np.unique(low * count + high, return_counts=True)
    return csr_matrix((1.0 / number, (code // count, code % count)), (count, count))


def _roots(ranks: list[RankInfo], component: Ints, reference: int | None) -> dict[int, int]:
    """Smallest rank of each component, or the wanted reference where it belongs to it."""
    roots: dict[int, int] = {}
    for position, info in enumerate(ranks):
        number = int(component[position])
        if number not in roots or info.rank == reference:
            roots[number] = position
    return roots


Lines = dict[tuple[int, int], tuple[float, float, float]]
"""Per pair, the lower rank first: how far the higher one's ends lie after the lower one's, at a
moment on the latter's clock, by how much more per ns, and the moment."""


def _pair_lines(tree: csr_matrix, low: Ints, high: Ints, apart: Floats, at: Floats) -> Lines:
    """The lines nearest to the differences of ends of the tree's pairs, in absolute distance."""
    count = tree.shape[0]
    edges = tree.tocoo()
    wanted = np.unique(np.minimum(edges.row, edges.col) * count + np.maximum(edges.row, edges.col))
    if not len(wanted):
        return {}
    code = low * count + high
    pair = np.minimum(np.searchsorted(wanted, code), len(wanted) - 1)
    mine = wanted[pair] == code
    pair, apart, at = pair[mine], apart[mine], at[mine]
    size = np.bincount(pair)
    base, middle = medians(apart, pair), medians(at, pair)
    half = np.maximum(np.bincount(pair, np.abs(at - middle[pair])) / size * 2, 1.0)
    x, y = (at - middle[pair]) / half[pair], apart - base[pair]
    offset, slope = np.zeros(len(wanted)), np.zeros(len(wanted))
    for _ in range(30):
        rest = y - offset[pair] - slope[pair] * x
        weight = 1 / np.maximum(np.abs(rest), 1e3)
        scale = np.bincount(pair, np.abs(rest)) / size + 300.0
        s0, s1, s2, t0, t1 = (
            np.asarray(np.bincount(pair, weight * value), dtype=np.float64)
            for value in (np.ones_like(x), x, x * x, y, x * y)
        )
        s2 = s2 + scale / (DRIFT * half) ** 2
        lever = s0 * s2 - s1 * s1
        offset, slope = (s2 * t0 - s1 * t1) / lever, (s0 * t1 - s1 * t0) / lever
    found = np.stack([base + offset, slope / half, middle], axis=1).tolist()
    return {
        (int(pair // count), int(pair % count)): (apart_by, rate, when)
        for pair, (apart_by, rate, when) in zip(wanted, found, strict=True)
    }


def _chain(start: Start, tree: csr_matrix, lines: Lines, root: int) -> None:
    """Lines against the root: those of pairs, one after the other along the tree."""
    nodes, parents = breadth_first_order(tree, root, directed=False)
    for rank in nodes[1:].tolist():
        up = int(parents[rank])
        apart, rate, at = lines[min(up, rank), max(up, rank)]
        local = start.middle[rank]
        if up < rank:  # local = there + apart + rate * (there - at)
            there, turn = (local - apart + rate * at) / (1 + rate), -rate / (1 + rate)
        else:
            there, turn = local + apart + rate * (local - at), rate
        added = start.added(np.array(up), there)
        start.offset[rank] = there - local + added
        start.drift[rank] = turn + start.drift[up] * (1 + turn)


def _share(start: Start, ranks: list[RankInfo], ends: Ends, reference: int | None) -> None:
    """Give ranks of one named host one clock where their ends allow it, and connect what only a
    host connects."""
    hosts: dict[str, list[int]] = {}
    for place, info in enumerate(ranks):
        if info.host is not None:
            hosts.setdefault(info.host, []).append(place)
    hosts = {name: members for name, members in hosts.items() if len(members) > 1}
    host = np.full(len(ranks), -1)
    for number, members in enumerate(hosts.values()):
        host[members] = number
    said = _agreeing(ends, host, np.array([info.on_gpu for info in ranks]))
    for members in hosts.values():
        for cluster in _clusters(start, members, said):
            start.unit[cluster] = cluster[0]
        for other in members:
            if start.component[other] != start.component[members[0]]:
                _join(start, ranks, members[0], other, reference)
    _share_unnamed(start, ranks, ends)
    start.unit = np.asarray(np.unique(start.unit, return_inverse=True)[1], dtype=np.int64)
    _even(start)


def _share_unnamed(start: Start, ranks: list[RankInfo], ends: Ends) -> None:
    """Give ranks whose host nobody named one clock where all that they share end as on one, to
    within what GPUs of a host differ by."""
    unnamed = np.array([info.host is None and info.on_gpu for info in ranks])
    if not 1 < unnamed.sum() <= MOST_UNNAMED:
        return
    count = len(ranks)
    said = _agreeing(ends, unnamed - 1, unnamed, sure=True)
    if not said:
        return
    one, other = np.array(list(said)).T
    yes = np.array(list(said.values()))
    graph = csr_matrix((yes[yes], (one[yes], other[yes])), (count, count))
    member = connected_components(graph, directed=False)[1]
    torn = member[one[~yes]][member[one[~yes]] == member[other[~yes]]]
    for mates in (np.flatnonzero(member == k) for k in np.setdiff1d(member, torn)):
        start.unit[mates] = start.unit[mates[0]]


def _clusters(
    start: Start, members: list[int], said: dict[tuple[int, int], bool]
) -> list[list[int]]:
    """Ranks of a host that read one clock: what their shared calls say, of others their lines."""
    clusters = [[member] for member in members]

    def one(first: list[int], other: list[int]) -> bool | None:
        found = {said.get((min(i, j), max(i, j))) for i in first for j in other} - {None}
        if found:
            return False not in found
        if start.component[first[0]] != start.component[other[0]]:
            return None
        return _lines_agree(start, first[0], other[0])

    merged = True
    while merged:
        merged = False
        for a in range(len(clusters)):
            for b in range(a + 1, len(clusters)):
                if one(clusters[a], clusters[b]):
                    clusters[a] = sorted(clusters[a] + clusters.pop(b))
                    merged = True
                    break
            if merged:
                break
    return clusters


def _lines_agree(start: Start, first: int, other: int) -> bool:
    at = (start.middle[first] + start.middle[other]) / 2
    apart = start.added(np.array(first), at) - start.added(np.array(other), at)
    return bool(abs(float(apart)) <= SAME_NS)


def _agreeing(
    ends: Ends, host: Ints, on_gpu: Flags, sure: bool = False
) -> dict[tuple[int, int], bool]:
    """Of each two ranks of a host that share calls: whether these end as they do on one clock, in
    every stretch of time; if `sure`, only of those of which it is known to SAME_NS."""
    count = len(host)
    every = np.maximum(np.bincount(ends.cell) // ENOUGH, 1)[ends.cell]
    few = ends.of_rows(places(ends.cell) % every == 0)
    mine = host[few.rank] >= 0
    rank, row, local = few.rank[mine], few.row[mine], few.local[mine]
    order = np.lexsort((rank, host[rank], row))
    rank, row, local = rank[order], row[order], local[order]
    found: list[tuple[Ints, Floats, Floats]] = []
    for lag in range(1, len(rank)):
        one, other = np.arange(len(rank) - lag), np.arange(lag, len(rank))
        both = (row[one] == row[other]) & (host[rank[one]] == host[rank[other]])
        if not both.any():
            break
        one, other = one[both], other[both]
        found.append((rank[one] * count + rank[other], local[one], local[other] - local[one]))
    if not found:
        return {}
    code, at, apart = (np.concatenate(column) for column in zip(*found, strict=True))
    pairs, pair = np.unique(code, return_inverse=True)
    threads = ~on_gpu[pairs // count] & ~on_gpu[pairs % count]
    agree, told = _within(pair, at, apart, threads, sure)
    return {
        (int(code // count), int(code % count)): bool(yes)
        for code, yes in zip(pairs[told], agree[told], strict=True)
    }


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


def _join(
    start: Start, ranks: list[RankInfo], first: int, other: int, reference: int | None
) -> None:
    """Bring the component of `other` on that of `first`: the two share the host's clock."""
    joining = start.component == start.component[other]
    at = start.middle[[other]]
    ahead = start.added(np.array([first]), at) - start.added(np.array([other]), at)
    start.offset[joining] += float(ahead[0])
    start.component[joining] = start.component[first]
    start.unit[start.unit == start.unit[other]] = start.unit[first]
    start.roots = _roots(ranks, start.component, reference)


def _even(start: Start) -> None:
    """Make the lines of ranks that share a clock one line, and that of each root 0."""
    order = np.argsort(start.unit, kind="stable")
    lead = order[np.searchsorted(start.unit[order], start.unit)]
    same = start.added(lead, start.middle)
    start.offset, start.drift = same, start.drift[lead]
    for root in start.roots.values():
        inside = start.component == start.component[root]
        # on the root's clock: x + o + d (x - m) of the root is what others come to
        turn = 1 / (1 + start.drift[root])
        come = start.middle[inside] + start.offset[inside]
        back = come - start.added(np.array(root), come) * turn
        rate = (1 + start.drift[inside]) * turn - 1
        start.offset[inside], start.drift[inside] = back - start.middle[inside], rate
        start.offset[root], start.drift[root] = 0.0, 0.0
        mates = start.unit == start.unit[root]
        start.offset[mates], start.drift[mates] = 0.0, 0.0
