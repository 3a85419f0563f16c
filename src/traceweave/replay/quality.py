"""How much of each rank's time rests on edges that explain it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from traceweave.arrays import Ints
from traceweave.replay.graph import Graph
from traceweave.replay.nodes import Sort

_FACTS = (
    *("ops", "launched", "stream_waits", "inferred_waits", "wait_calls", "host_waits"),
    "unfollowed",
)


def quality(graph: Graph, path_unexplained: float) -> Iterator[dict[str, object]]:
    """Yield one row per rank: columns of replay_quality.

    Unexplained is time in which the device ran nothing and no edge says why: the delay of an op
    after all that it waited for.
    """
    nodes = graph.nodes
    # an op may carry several
    instances = np.concatenate([part.instance for part in graph.parts])
    seen = np.bincount(instances, minlength=len(graph.instances["number"]))
    whole = seen >= np.maximum(graph.instances["size"], 2)
    for part in graph.parts:
        mine = np.arange(part.nodes.start, part.nodes.stop)
        ops = mine[nodes.sort[mine] < Sort.CALL]
        dropped = {kind: count for kind, count in sorted(part.dropped.items()) if count}
        kinds = ", ".join(f"{kind} {count}" for kind, count in dropped.items())
        lone = int(np.isin(graph.lone, mine).sum())
        yield {
            "rank": part.rank,
            "nodes": len(mine),
            "window_ns": int(nodes.ends(ops).max() - nodes.start[ops].min()),
            "unexplained_ns": _unexplained(graph, ops),
            **{fact: part.facts[fact] for fact in _FACTS},
            "collectives": len(part.instance) + lone,
            "incomplete": int(np.sum(~whole[part.instance])) + lone,
            "dropped": sum(dropped.values()),
            "dropped_kinds": kinds or None,
            "path_unexplained": path_unexplained,
        }


def _unexplained(graph: Graph, ops: Ints) -> int:
    """Return for how long nothing ran while an op was delayed by nothing known."""
    nodes = graph.nodes
    ops = ops[nodes.sort[ops] != Sort.TRANSFER]
    ops = ops[np.argsort(nodes.start[ops], kind="stable")]
    begins, last = nodes.start[ops], np.where(nodes.sort[ops] == Sort.ARRIVAL, ops + 1, ops)
    end = nodes.ends(last)
    free = np.append(begins[:1], np.maximum.accumulate(end)[:-1])
    # without a GPU the time between operators is the host's own work
    delay = nodes.delay[ops] if graph.has_gpu else np.zeros(len(ops), np.int64)
    delayed = np.where(nodes.depends(ops), np.maximum(begins - delay, free), begins)
    return int(np.maximum(begins - delayed, 0).sum())
