"""When nothing ran on the GPU of a rank: what of the host's time that is."""

from __future__ import annotations

import numpy as np

from traceweave.arrays import Flags, Ints
from traceweave.replay.graph import Graph
from traceweave.replay.nodes import ARRIVAL, CALL, Nodes


class Idle:
    """For how long the GPU of a rank ran nothing while each node of its host took its time, ns."""

    def __init__(self, graph: Graph) -> None:
        nodes = graph.nodes
        self.before, self.within = np.zeros(len(nodes), np.int64), np.zeros(len(nodes), np.int64)
        """In the delay of a node, and in its length;"""
        self.to_launch = np.zeros(len(nodes), np.int64)
        """of an op, from the start of the call that launched it until that returned or it began."""
        for block in nodes.blocks():
            self._fill(nodes, np.arange(block.start, block.stop), graph.has_gpu)

    def _fill(self, nodes: Nodes, of: Ints, has_gpu: bool) -> None:
        on_device: Flags = nodes.sort[of] < CALL
        if not has_gpu:
            # an operator's delay is time in which its thread runs none
            self.before[of] = np.maximum(nodes.delay[of], 0)
            return
        ops, host = of[on_device], of[~on_device]
        start, end = nodes.start[ops], nodes.end[ops]
        # what has arrived runs until its transfer, which follows it, begins
        arrived = np.flatnonzero(nodes.sort[ops] == ARRIVAL)
        end[arrived] = nodes.start[ops[arrived] + 1]
        busy = _Union(start, end)
        at = nodes.start[host]
        self.before[host] = busy.gaps(at - np.maximum(nodes.delay[host], 0), at)
        self.within[host] = busy.gaps(at, nodes.end[host])
        launched = ops[nodes.launch[ops] >= 0]
        call = nodes.launch[launched]
        until = np.minimum(nodes.start[launched], nodes.end[call])
        self.to_launch[launched] = busy.gaps(nodes.start[call], until)


class _Union:
    """Stretches of time, those that touch or overlap as one."""

    def __init__(self, start: Ints, end: Ints) -> None:
        order = np.argsort(start, kind="stable")
        start, until = start[order], np.maximum.accumulate(end[order])
        first = np.append(True, start[1:] > until[:-1])[: len(start)]
        self._begins = start[first]
        self._ends = until[np.append(first[1:], True)[: len(start)]]
        self._lengths = np.append(0, np.cumsum(self._ends - self._begins))

    def gaps(self, since: Ints, until: Ints) -> Ints:
        """Return how much of each time between two moments is in none of the stretches."""
        until = np.maximum(until, since)
        found: Ints = until - since - (self._up_to(until) - self._up_to(since))
        return found

    def _up_to(self, at: Ints) -> Ints:
        place = np.searchsorted(self._begins, at, side="right")
        past = np.maximum(np.append(0, self._ends)[place] - at, 0)
        found: Ints = self._lengths[place] - past
        return found
