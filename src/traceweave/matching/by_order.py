"""Calls of several ranks matched by order: each rank against one that saw most, the leftovers by
time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from traceweave.arrays import Ints
from traceweave.matching.alignment import align_pair
from traceweave.matching.by_time import match_leftovers
from traceweave.matching.calls import Calls
from traceweave.matching.coarse_clocks import Line
from traceweave.matching.outcome import ALONE, Matches
from traceweave.matching.send_recv import SameClock


@dataclass
class Part:
    """One rank's calls of a group in one profiling window, and how they lie on the reference's
    clock.
    """

    index: Ints
    calls: Calls
    line: Line | None = None
    reason: str = ""


def match_by_order(calls: Calls, index: Ints, same_clock: SameClock, matches: Matches) -> None:
    """Align every rank with the rank that recorded most, then the leftovers with each other by
    time.
    """
    first = matches.next_instance
    own = calls.take(index)
    by_rank = _split(own, np.arange(len(index)), own.rank)
    if len(by_rank) < 2:
        matches.refuse(index, ALONE)
        return
    for reference in sorted(by_rank, key=lambda part: -len(part.index))[:3]:
        others = [part for part in by_rank if part is not reference]
        parts = [p for o in others for p in _split(own, o.index, own.source[o.index])]
        instance = np.full(len(index), -1, dtype=np.int64)
        instance[reference.index] = first + np.arange(len(reference.index))
        plain = _align_all(parts, reference, same_clock, instance)
        if sum(part.line is not None for part in parts) * 2 >= len(parts):
            break
    for part in parts:
        if part.line is None:
            matches.refuse(index[part.index], part.reason)
    reference.line = Line(0.0, 0.0, 0.0, 0.0)
    match_rest([reference, *parts], instance)
    found = np.flatnonzero(instance >= 0)
    matches.accept(index[found], instance[found], "order" if plain else "sequence-aligned")


def _split(calls: Calls, index: Ints, key: Ints) -> list[Part]:
    """The calls at `index`, apart by key, each in its old order."""
    return [
        Part(chosen, calls.take(chosen)) for k in np.unique(key) for chosen in [index[key == k]]
    ]


def _align_all(parts: list[Part], reference: Part, same_clock: SameClock, instance: Ints) -> bool:
    """Give the calls of `parts` the instances of their partners in `reference`; whether order alone
    explains all.
    """
    plain = True
    for part in parts:
        known = same_clock(int(part.calls.rank[0]), int(reference.calls.rank[0]))
        alignment = align_pair(part.calls, reference.calls, same_clock=known)
        part.line, part.reason = alignment.line, alignment.reason
        plain = plain and alignment.plain
        found = alignment.partner >= 0
        instance[part.index[found]] = instance[reference.index[alignment.partner[found]]]
    return plain


def match_rest(parts: list[Part], instance: Ints) -> None:
    """Match calls that the first part lacks, by time, against the part that has most of them, until
    none is left.
    """
    for _ in range(len(parts)):
        open_parts = []
        for part in parts[1:]:
            free = instance[part.index] < 0
            if part.line is not None and free.any():
                open_parts.append(Part(part.index[free], part.calls.take(free), part.line))
        if len(open_parts) < 2:
            return
        lead, *others = sorted(open_parts, key=lambda part: -len(part.index))
        following = int(instance.max()) + 1
        instance[lead.index] = following + np.arange(len(lead.index))
        for part in others:
            if part.line is None or lead.line is None:
                continue
            partner = match_leftovers(part.calls, part.line, lead.calls, lead.line)
            found = partner >= 0
            instance[part.index[found]] = instance[lead.index[partner[found]]]
