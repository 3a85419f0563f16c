"""Groups of one job are the axes of a mesh: which of them cannot belong to the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Axis = tuple[int, int]
"""Distance between neighbours, and how many there are."""


def axis_of(ranks: Iterable[int]) -> Axis | None:
    """Return the axis along which two ranks or more lie, None if they do not lie evenly."""
    members = sorted(ranks)
    far = members[1] - members[0]
    even = members == list(range(members[0], members[-1] + 1, far))
    return (far, len(members)) if even else None


def one_mesh(a: Axis, b: Axis) -> bool:
    """Whether groups along both axes may be of one job: neighbours along one lie as far apart as
    a group along the other is long, or a multiple; or groups along one are made up of those along
    the other.
    """
    one, other = sorted((a, b))
    (near, many), (far, _) = one, other
    return near == far or far % (near * many) == 0 or holds(one, other)


def holds(axis: Axis, other: Axis) -> bool:
    """Whether groups along an axis are made up of several along another."""
    (near, many), (far, others) = axis, other
    return many > others and far % near == 0 and (near * many) % (far * others) == 0


def odd_axes(
    axes: set[Axis], known: Iterable[Axis] = (), seen: Mapping[Axis, int] | None = None
) -> set[Axis]:
    """Return the axes to leave out so that all others are of one mesh: those that do not fit
    what is known, then those that fit fewest; of these, those along which half as many groups or
    fewer were `seen` whole as along another, and both of two where nothing tells which.
    """
    seen = seen or {}
    kept = {axis for axis in axes if all(one_mesh(axis, other) for other in known)}
    while True:
        against = {a: sum(not one_mesh(a, b) for b in kept) for a in kept}
        worst = max(against.values(), default=0)
        if not worst:
            return axes - kept
        odd = {a for a, count in against.items() if count == worst}
        most = max(seen.get(a, 0) for a in odd)
        kept -= {a for a in odd if 2 * seen.get(a, 0) <= most} or odd


def unseen_axes(axes: set[Axis], seen: set[Axis]) -> set[Axis]:
    """Return the axes to leave out of which no group was recorded whole, where groups along those
    `seen` make up theirs: a rank that was not recorded keeps its neighbours in several groups
    waiting, so that these end together.
    """
    return {axis for axis in axes - seen if any(holds(axis, other) for other in seen)}
