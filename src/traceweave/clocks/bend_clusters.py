"""Whether lines describe the clocks, and if not, which of them bend alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from traceweave.arrays import Flags, Floats, Ints
from traceweave.clocks.matrices import Block
from traceweave.clocks.probes import PROBED
from traceweave.clocks.steps import steps_show
from traceweave.medians import medians_of_parts, spreads_of_parts

LEAST = 40
"""Instances that a bend needs."""
SAMPLE = 1_000
"""Instances of a block that are looked at."""
MANY = 256
"""Hosts, or ranks that no host is named for, of which not every two are compared."""


@dataclass(frozen=True)
class Rule:
    """When ends that should lie along a line do not."""

    stretches: int
    """Most stretches of time that are looked at,"""
    anchors: int
    """and the fewest anchors in each."""
    sigmas: float
    """How far a stretch's median must stray, in its standard errors,"""
    stray_ns: float
    """at least,"""
    noise: float
    """and in units of the noise of a single end."""
    outliers: int
    """So many stretches may stray by accident."""


BENT = Rule(24, 10, 4.0, 10_000.0, 1.0, 1)
"""A bend is only looked for where it is plain: rings alone move ends by some microseconds between
phases of a step, and less than the noise of an end is not worth a curve."""
ALIKE = (Rule(64, 5, 4.0, 5_000.0, 0.0, 0), Rule(6, 20, 4.0, 5_000.0, 0.0, 0))
"""Clocks that bend are only taken for one where nothing tells them apart, short or long."""


def bends_show(blocks: list[Block], residuals: list[Floats], host: Ints) -> bool:
    """Whether ends stray from the lines of a fit: those of a rank in one group, or what two hosts
    differ by in all groups that they share; or whether those of a host step, as few can show."""
    for block, residual in zip(blocks, residuals, strict=True):
        at, order = _times(block)
        found = _strays(at, residual[order], BENT)
        if np.isfinite(found).any() and np.nanmax(found) > 1:
            return True
    if host.max() >= MANY:
        return False
    few, rests = thinned(blocks, residuals)
    if len(blocks) > 1:
        apart = _apart(few, rests, host, BENT)
        if np.isfinite(apart).any() and np.nanmax(apart) > 1:
            return True
    return any(steps_show(at, behind) for at, behind in _behind(few, rests, host))


def _behind(
    blocks: list[Block], rests: list[Floats], host: Ints
) -> Iterator[tuple[Floats, Floats]]:
    """Per host of few calls with others: how far its ends lie behind theirs, in the order of time;
    exchanges of probes, which lie far nearer, left out."""
    shared = [
        (block, *_means_of(rest, host[block.ranks]))
        for block, rest in zip(blocks, rests, strict=True)
        if block.key[1] != PROBED
    ]
    calls = np.zeros(int(host.max()) + 1, dtype=np.int64)
    for block, hosts, _ in shared:
        calls[hosts] += len(block.end)
    few = calls < BENT.stretches * BENT.anchors
    found: dict[int, list[tuple[Floats, Floats]]] = {}
    for block, hosts, means in shared:
        if not few[hosts].any():
            continue
        there = np.isfinite(means)
        moments = np.nanmedian(block.end, axis=1)
        for place in np.flatnonzero(few[hosts]).tolist():
            known = there[:, place] & (there.sum(axis=1) > 1)
            others = np.delete(means[known], place, axis=1)
            behind = np.nanmean(others, axis=1) - means[known, place]
            found.setdefault(int(hosts[place]), []).append((moments[known], behind))
    for parts in found.values():
        at, behind = (np.concatenate(of) for of in zip(*parts, strict=True))
        order = np.argsort(at, kind="stable")
        yield at[order], behind[order]


def thinned(blocks: list[Block], values: list[Floats]) -> tuple[list[Block], list[Floats]]:
    """Return some of the instances of long blocks, and what is said of their ends."""
    every = [-(-len(block.end) // SAMPLE) for block in blocks]
    return (
        [block.thinned(step) for block, step in zip(blocks, every, strict=True)],
        [value[::step] for value, step in zip(values, every, strict=True)],
    )


def cluster(blocks: list[Block], rests: list[Floats], host: Ints, named: Flags) -> Ints:
    """Return the number of each rank's cluster; ranks of one `host` are one, unless their
    difference bends plainly, and those of two hosts that are `named` are not.
    """
    apart = _apart(blocks, rests, np.arange(len(host)), BENT)
    parts = [part for number in np.unique(host) for part in _of_host(host == number, apart)]
    of_rank = _numbered(parts, len(host))
    known = np.array([named[np.flatnonzero(of_rank == n)[0]] for n in range(len(parts))])
    apart = np.fmax.reduce([_apart(blocks, rests, of_rank, rule) for rule in ALIKE])
    apart[known[:, None] & known[None, :]] = np.inf
    alike = _grouped([[number] for number in range(len(parts))], apart)
    return _numbered(alike, len(parts))[of_rank]


def _of_host(mine: Flags, apart: Floats) -> list[list[int]]:
    """The ranks of a host in clusters; those that share too few calls to compare are one."""
    compared = _grouped([[rank] for rank in np.flatnonzero(mine).tolist()], apart)
    return _grouped(compared, np.nan_to_num(apart, nan=0.0, posinf=np.inf))


def _numbered(parts: list[list[int]], count: int) -> Ints:
    result = np.zeros(count, dtype=np.int64)
    for number, members in enumerate(parts):
        result[members] = number
    return result


def _grouped(waiting: list[list[int]], apart: Floats) -> list[list[int]]:
    """Clocks in clusters: one joins the first in which it differs by a line from every clock that
    it can be compared with.
    """
    clusters: list[list[int]] = []
    farthest = np.zeros((0, len(apart)))
    """Per cluster: from each clock, of those that it can be compared with."""
    while waiting:
        clusters.append(list(waiting.pop(0)))
        farthest = np.vstack([farthest, np.fmax.reduce(apart[clusters[-1]])])
        while _join(waiting, clusters, apart, farthest):
            pass
    return clusters


def _join(
    waiting: list[list[int]], clusters: list[list[int]], apart: Floats, farthest: Floats
) -> bool:
    """Let clocks join clusters; whether any did."""
    before = len(waiting)
    for members in list(waiting):
        fits = np.flatnonzero(np.fmax.reduce(farthest[:, members], axis=1) <= 1)
        if len(fits):
            clusters[fits[0]] += members
            np.fmax(farthest[fits[0]], np.fmax.reduce(apart[members]), out=farthest[fits[0]])
            waiting.remove(members)
    return len(waiting) < before


def _apart(blocks: list[Block], rests: list[Floats], part: Ints, rule: Rule) -> Floats:
    """How far the difference of every two parts strays from a line, in units of what is allowed;
    NaN where they share too little. Groups of a mesh share few instances each, and many together.
    """
    means = [_means_of(rest, part[block.ranks]) for block, rest in zip(blocks, rests, strict=True)]
    moments = [np.nanmedian(block.end, axis=1) for block in blocks]
    count = int(part.max()) + 1
    apart = np.full((count, count), np.nan)
    for number, places, others in _pairs([parts for parts, _ in means], count):
        shared: list[int] = places.tolist()
        at = np.concatenate([moments[n] for n in shared])
        order = np.argsort(at, kind="stable")
        behind = np.concatenate([_less(*means[n], number, others) for n in shared])
        found = _strays(at[order], behind[order], rule)
        apart[number, others] = apart[others, number] = found
    return apart


def _pairs(parts: list[Ints], count: int) -> Iterator[tuple[int, Ints, Ints]]:
    """Every two parts that share blocks, given the parts of each block: the first one, the blocks,
    and all others that share just these with it.
    """
    inside = np.zeros((count, len(parts)), dtype=np.bool_)
    for block, here in enumerate(parts):
        inside[here, block] = True
    for number in range(count):
        mine = np.flatnonzero(inside[number])
        shared = inside[number + 1 :, mine]
        others = np.flatnonzero(shared.any(axis=1))
        packed = np.packbits(shared[others], axis=1)
        _, first, kind = np.unique(packed, axis=0, return_index=True, return_inverse=True)
        for n, one in enumerate(first):
            yield number, mine[shared[others[one]]], number + 1 + others[kind.ravel() == n]


def _less(parts: Ints, means: Floats, number: int, others: Ints) -> Floats:
    """The means of some parts of a block less that of one."""
    place = np.searchsorted(parts, [number, *others])
    return np.asarray(means[:, place[1:]] - means[:, place[:1]])


def _means_of(rest: Floats, part: Ints) -> tuple[Ints, Floats]:
    """The parts, and the mean of the columns of each, NaN left out."""
    parts = np.unique(part)
    means = np.full((len(rest), len(parts)), np.nan)
    for column, number in enumerate(parts):
        mine = rest[:, part == number]
        known = np.isfinite(mine).any(axis=1)
        means[known, column] = np.nanmean(mine[known], axis=1)
    return parts, means


def _times(block: Block) -> tuple[Floats, Ints]:
    moment = np.nanmedian(block.end, axis=1)
    order = np.argsort(moment, kind="stable")
    return moment[order], order


def _strays(at: Floats, values: Floats, rule: Rule) -> Floats:
    """How far each column strays from a line; NaN where it has too little."""
    known = np.isfinite(values)
    found = np.full(values.shape[1], np.nan)
    whole = known.all(axis=0)
    if whole.any() and len(at) >= LEAST:
        found[whole] = _stray(at, values[:, whole], rule)
    for column in np.flatnonzero(~whole & (known.sum(axis=0) >= LEAST)):
        rows = known[:, column]
        found[column] = _stray(at[rows], values[rows, column : column + 1], rule)[0]
    return found


def _stray(at: Floats, values: Floats, rule: Rule) -> Floats:
    count = min(rule.stretches, len(at) // rule.anchors)
    medians = medians_of_parts(values, count)
    sigma = 1.4826 * np.median(spreads_of_parts(values, medians), axis=0)
    error = 1.2533 * sigma / np.sqrt(-(-len(at) // count))
    x = medians_of_parts(at, count)
    x = (x - x.mean()) / max(float(np.ptp(x)), 1.0)
    slope = x @ (medians - medians.mean(axis=0)) / max(float(x @ x), 1e-12)
    rest = np.abs(medians - medians.mean(axis=0) - x[:, None] * slope)
    far = np.sort(rest, axis=0)[-1 - rule.outliers]
    allowed = np.maximum(rule.sigmas * error, rule.noise * sigma)
    return np.asarray(far / np.maximum(allowed, rule.stray_ns))
