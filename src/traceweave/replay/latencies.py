"""What of a transfer is latency: where a line through the medians by size begins. Two always lie on
one: it counts where it begins above 0 by more than its error, as single calls tell that. Else it is
no more than what any size takes beyond a slow link, as in alpha_beta.
"""

from __future__ import annotations

import numpy as np

from traceweave.arrays import Floats, Ints
from traceweave.medians import group_medians, medians
from traceweave.replay.graph import Graph
from traceweave.replay.nodes import Sort

SLOW = 1.0
"""Bytes per ns, about those of 10 Gbit/s Ethernet: what a slower link takes counts as latency."""


def effective_bytes(graph: Graph) -> Floats:
    """Return what each instance moves over the links of a rank."""
    size: Floats = np.maximum(graph.instances["bytes"], 0) * graph.instances["factor"]
    return size


def latencies(graph: Graph, length: Ints) -> Floats:
    """Return the latency in groups as large as that of each instance, ns; of all groups where those
    do not tell it."""
    nodes, size = graph.nodes, effective_bytes(graph)
    whole = (nodes.sort == Sort.TRANSFER) & (nodes.instance >= 0)
    instance, transfer, ranks = nodes.instance[whole], length[whole], graph.instances["size"]
    usual = _of_line(size[instance], instance, transfer)
    alpha = np.full(len(size), usual or 0.0)
    for one in np.unique(ranks[instance]).tolist():
        mine = ranks[instance] == one
        found = _of_line(size[instance[mine]], instance[mine], transfer[mine])
        if found is None and usual is None:
            found = _unexplained(size, instance[mine], transfer[mine])
        if found is not None:
            alpha[ranks == one] = found
    return alpha


def _of_line(size: Floats, instance: Ints, transfer: Ints) -> float | None:
    sizes, number = np.unique(size, return_inverse=True)
    if len(sizes) < 2:
        return None
    usual = medians(transfer, number)
    slope, begins = np.polyfit(sizes, usual, 1)
    off = np.abs(transfer - usual[number])
    if slope <= 0 or (len(sizes) == 2 and begins <= _error(size, off, len(np.unique(instance)))):
        return None
    return max(float(begins), 0.0)


def _error(size: Floats, off: Floats, calls: int) -> float:
    """Return the standard error of where a line through so many calls begins, which are so far off
    from it."""
    if calls < 3:
        return np.inf
    each = 1.4826 * float(np.median(off))
    return float(each * np.sqrt(np.mean(size**2) / np.var(size) / (calls - 2)))


def _unexplained(size: Floats, instance: Ints, transfer: Ints) -> float | None:
    """Return the least that the median call of any size takes beyond a slow link, if that is most
    of what the quickest does."""
    longest = np.zeros(len(size))
    np.maximum.at(longest, instance, transfer)
    calls = np.unique(instance)
    usual = group_medians(longest[calls], size[calls])
    beyond = float(np.min(usual - size[calls] / SLOW))
    return beyond if 2 * beyond > np.min(usual) else None
