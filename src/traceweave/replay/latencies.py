"""What of a transfer is latency: where a line through the medians by size begins; of one size, what
its median call takes beyond a slow link, as in alpha_beta.
"""

from __future__ import annotations

import numpy as np

from traceweave.arrays import Floats, Ints
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
    have one size only. Where all have the same one, what a slow link does not explain."""
    nodes, size = graph.nodes, effective_bytes(graph)
    whole = (nodes.sort == Sort.TRANSFER) & (nodes.instance >= 0)
    instance, transfer, ranks = nodes.instance[whole], length[whole], graph.instances["size"]
    usual = _latency(size[instance], transfer)
    alpha = np.full(len(size), usual or 0.0)
    for one in np.unique(ranks[instance]).tolist():
        mine = ranks[instance] == one
        found = _latency(size[instance[mine]], transfer[mine])
        if found is None and usual is None:
            found = _unexplained(size, instance[mine], transfer[mine])
        if found is not None:
            alpha[ranks == one] = found
    return alpha


def _latency(size: Floats, transfer: Ints) -> float | None:
    sizes, number = np.unique(size, return_inverse=True)
    if len(sizes) < 2:
        return None
    order = np.lexsort((transfer, number))
    count = np.bincount(number)
    middle = np.cumsum(count) - count + count // 2
    slope, intercept = np.polyfit(sizes, transfer[order][middle], 1)
    return max(float(intercept), 0.0) if slope > 0 else None


def _unexplained(size: Floats, instance: Ints, transfer: Ints) -> float | None:
    """Return what the median call takes beyond a slow link, if that is most of it."""
    longest = np.zeros(len(size))
    np.maximum.at(longest, instance, transfer)
    usual = float(np.median(longest[np.unique(instance)]))
    beyond = usual - float(size[instance[0]]) / SLOW
    return beyond if 2 * beyond > usual else None
