"""Whose lateness a late rank passes on: waiting in one group that makes it late in another."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from traceweave.analyses.sweeps.times import Numbers

Amounts = npt.NDArray[np.float64]

SMALL = 0.01
"""Origins of less than this share of a rank's lateness are not told apart from the rank itself."""


@dataclass
class _Group:
    """Ranks that take part in the same collectives."""

    members: Numbers
    """In order."""
    even: Amounts
    """What each had waited, by origin, when they were last even with each other."""
    latest: Amounts
    """The same at their last collective, which made them even if they did not go on beside it."""
    went_on: npt.NDArray[np.bool_]
    """Whether each computed on during that one."""
    end: Numbers
    """When that one ended for each."""


def wait_origins(
    instance: Numbers,
    rank: Numbers,
    start: Numbers,
    end: Numbers,
    exposed: Numbers,
    went_on: Numbers,
    queued_ns: Numbers,
) -> tuple[npt.NDArray[np.generic], ...]:
    """Return who is to blame, and for which share, for the lateness of ranks that were held up.

    One element per rank in a collective; collectives are numbered in the order of their last
    arrival. `exposed` is for how long the rank did nothing but wait for the last arrival, `went_on`
    whether it computed on for most of the time; `queued_ns` has one element.

    A rank that comes later than those before it has, since they were all even, worked or waited
    longer. As far as it has waited longer, its lateness goes back to those that it waited for,
    which are found in the same way: collectives are gone through in order of time, and every rank
    keeps for whom it has waited so far.
    """
    order = np.lexsort((rank, start, instance))
    begins = np.flatnonzero(np.diff(instance[order], prepend=-1))
    who, position = np.unique(rank, return_inverse=True)
    calls = [order[begin:stop] for begin, stop in pairwise([*begins.tolist(), len(order)])]
    groups = [_key(position[rows]) for rows in calls]
    known = {key: _new(position[rows], len(who)) for key, rows in zip(groups, calls, strict=True)}
    within = {key: [one for one in known if one & key == one] for key in known}
    waited = np.zeros((len(who), len(who)))
    found: list[tuple[npt.NDArray[np.generic], ...]] = []
    for key, rows in zip(groups, calls, strict=True):
        member, begun = position[rows], start[rows]
        shares = _shares(
            member, begun, waited[member] - _even(known[key], member, begun, queued_ns)
        )
        late, origin = np.nonzero(shares)
        held = shares[late, member[late]] < 1
        late, origin = late[held], origin[held]
        number = np.full(len(late), instance[rows[0]])
        found.append((number, who[member[late]], who[origin], shares[late, origin]))
        waited[member] += _waits(begun, shares, exposed[rows])
        by_member = rows[np.argsort(member, kind="stable")]
        for one in within[key]:
            group = known[one]
            of = by_member[np.searchsorted(position[by_member], group.members)]
            group.latest, group.end = waited[group.members], end[of]
            group.went_on = went_on[of] != 0
    if not found:
        return (np.empty(0, np.int64),) * 3 + (np.empty(0),)
    return tuple(np.concatenate(column) for column in zip(*found, strict=True))


def _key(members: Numbers) -> int:
    """Return a number that is the same for the same members: its bits."""
    key = 0
    for one in members.tolist():
        key |= 1 << one
    return key


def _new(members: Numbers, ranks: int) -> _Group:
    members = np.unique(members)
    count = len(members)
    nothing = np.zeros((count, ranks))
    return _Group(members, nothing, nothing, np.ones(count, bool), np.zeros(count, np.int64))


def _even(group: _Group, member: Numbers, begun: Numbers, queued_ns: Numbers) -> Amounts:
    """Return what each member had waited when they were last even with each other.

    Their last collective made them even unless it held up nobody: those who computed on during it,
    or had the next one queued behind it, were ahead before it and still are.
    """
    place = np.searchsorted(group.members, member)
    early = place[:-1]
    if not np.all(group.went_on[early] | (begun[:-1] - group.end[early] <= queued_ns[0])):
        group.even = group.latest
    return group.even[place]


def _shares(member: Numbers, begun: Numbers, since: Amounts) -> Amounts:
    """Return to whom the lateness of each member goes back, by share; members are in the order of
    their arrival, `since` is what each has waited since they were even, by origin."""
    count = len(member)
    shares = np.zeros((count, since.shape[1]))
    shares[np.arange(count), member] = 1
    if not np.any(since):
        return shares
    before = np.arange(1, count)
    later = begun[1:] - np.cumsum(begun - begun[0])[:-1] / before - begun[0]
    longer = since[1:] - np.cumsum(since, axis=0)[:-1] / before[:, None]
    passed = np.clip(longer.sum(axis=1) / np.maximum(later, 1), 0, 1)
    longer = np.maximum(longer, 0)
    passed[later <= 0] = 0
    parts = longer * (passed / np.maximum(longer.sum(axis=1), 1e-9))[:, None]
    parts[parts < SMALL] = 0
    shares[1:] += parts
    shares[before, member[1:]] -= parts.sum(axis=1)
    return shares


def _waits(begun: Numbers, shares: Amounts, exposed: Numbers) -> Amounts:
    """Return for whom each member waits, as far as it does nothing else.

    The time between two arrivals is shared by all who are still missing.
    """
    count = len(begun)
    missing = np.cumsum(shares[::-1], axis=0)[::-1][1:] / np.arange(count - 1, 0, -1)[:, None]
    blamed = np.zeros_like(shares)
    blamed[:-1] = np.cumsum((missing * np.diff(begun)[:, None])[::-1], axis=0)[::-1]
    whole = np.maximum(begun[-1] - begun, 1)
    waits: Amounts = blamed * (np.minimum(exposed, whole) / whole)[:, None]
    return waits
