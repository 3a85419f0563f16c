"""When nothing ran on the GPU of a rank: what of the host's time that is, and of which step."""

from __future__ import annotations

import numpy as np

from traceweave.arrays import Flags, Ints
from traceweave.replay.graph import Graph
from traceweave.replay.lookups import Union
from traceweave.replay.nodes import Nodes, Sort


class Idle:
    """For how long the GPU of a rank ran nothing while each node of its host took its time, ns."""

    def __init__(self, graph: Graph) -> None:
        nodes = graph.nodes
        self.before, self.within = np.zeros(len(nodes), np.int64), np.zeros(len(nodes), np.int64)
        """In the delay of a node, and in its length;"""
        self.to_launch = np.zeros(len(nodes), np.int64)
        """of an op, from the start of the call that launched it until that returned or it began."""
        self.step = nodes.step.copy()
        """The step in whose window that lies. One ends with the first op of the next: what keeps
        the host from launching that is time of the step before."""
        for block in nodes.blocks():
            self._fill(nodes, np.arange(block.start, block.stop), graph.has_gpu)

    def _fill(self, nodes: Nodes, of: Ints, has_gpu: bool) -> None:
        on_device: Flags = nodes.sort[of] < Sort.CALL
        if not has_gpu:
            # an operator's delay is time in which its thread runs none
            self.before[of] = np.maximum(nodes.delay[of], 0)
            return
        ops, host = of[on_device], of[~on_device]
        start, end = nodes.start[ops], nodes.ends(ops)
        # what has arrived runs until its transfer, which follows it, begins
        arrived = np.flatnonzero(nodes.sort[ops] == Sort.ARRIVAL)
        end[arrived] = nodes.start[ops[arrived] + 1]
        busy = Union(start, end)
        at = nodes.start[host]
        self.before[host] = busy.gaps(at - np.maximum(nodes.delay[host], 0), at)
        self.within[host] = busy.gaps(at, nodes.ends(host))
        launched = ops[nodes.launch[ops] >= 0]
        call = nodes.launch[launched]
        until = np.minimum(nodes.start[launched], nodes.ends(call))
        self.to_launch[launched] = busy.gaps(nodes.start[call], until)
        self._place(nodes, ops, np.append(host, launched), np.append(at, nodes.start[call]))

    def _place(self, nodes: Nodes, ops: Ints, of: Ints, at: Ints) -> None:
        """Say in which windows moments lie: that of the last step of which an op has begun."""
        begun = ops[nodes.step[ops] >= 0]
        begun = begun[np.argsort(nodes.start[begun], kind="stable")]
        latest = np.maximum.accumulate(nodes.step[begun])
        place = np.searchsorted(nodes.start[begun], at, side="right") - 1
        known = (place >= 0) & (nodes.step[of] >= 0)
        self.step[of[known]] = latest[place[known]]
