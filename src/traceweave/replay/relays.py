"""Who waits for whom in what the host transfers from or to a root (gloo).

A broadcast goes down a binomial tree: counted from the root, place v has it from v without its
highest bit. A scatter or a gather goes between the root and each other. No message leaves before
its receiver has asked for it, so both of its ends wait for each other, and a receiver waits for all
that it comes through as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from traceweave.arrays import Ints
from traceweave.replay.lookups import stretches
from traceweave.replay.rows import Columns


def relayed(
    instance: Ints, rank: Ints, instances: Columns, members: Mapping[int, Ints]
) -> tuple[Ints, Ints]:
    """Return pairs of parts of one collective that has a root: a part, and one that waits for it.

    `members` are the ranks of groups whose collectives the host transfers, by group.
    """
    places = {
        group: {one: place for place, one in enumerate(ranks.tolist())}
        for group, ranks in members.items()
    }
    pairs: list[tuple[Ints, Ints]] = [(np.empty(0, np.int64), np.empty(0, np.int64))]
    known = np.isin(instances["group_id"], list(members)) & (instances["root"] >= 0)
    parts = np.flatnonzero(known[instance])
    parts = parts[np.argsort(instance[parts], kind="stable")]
    for begin, end in stretches(instance[parts]):
        own = parts[begin:end]
        number = instance[own[0]]
        place, root = places[int(instances["group_id"][number])], int(instances["root"][number])
        if not place.keys() >= {root, *rank[own].tolist()}:
            continue  # a group whose files list other ranks than take part tells no places
        after = [(place[one] - place[root]) % len(place) for one in rank[own].tolist()]
        source, target = _pairs(tuple(after), bool(instances["is_tree"][number]))
        pairs.append((own[source], own[target]))
    other, waiting = (np.concatenate(column) for column in zip(*pairs, strict=True))
    return other, waiting


@lru_cache(maxsize=256)
def _pairs(places: tuple[int, ...], is_tree: bool) -> tuple[Ints, Ints]:
    """Return who is waited for, and by whom, of those at such places from the root on."""
    place = np.array(places)
    row, column = place[:, None], place[None, :]
    waits = (row == 0) != (column == 0)
    if is_tree:
        # 2 to the number of bits of each place
        above = 1 << np.ceil(np.log2(place + 1)).astype(np.int64)
        comes_through = (row < column) & (column % above[:, None] == row)
        sends = (row > 0) & (row - above[:, None] // 2 == column)
        waits = comes_through | sends
    source, target = np.nonzero(waits)
    return source, target
