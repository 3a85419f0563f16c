"""Simulated Kineto traces in which each step is one replay of a CUDA graph.

What kernels say of themselves is what torch writes beside them from 2.15 on, if the graph was
captured with annotations: what their collective was called with when it was captured, its number
with it, which each replay repeats.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.rewritten import rewritten

Event = dict[str, Any]

GRAPH = 5
NUMBER = 500
"""How many operations each group had done before the capture."""


def replayed(
    source: Path,
    target: Path,
    cut: Mapping[int, tuple[int, ...]],
    part: float = 1,
    lanes: bool = False,
) -> Path:
    """Write the traces of a folder into a new one, without those steps of some ranks, counted from
    0. The first `part` of the GPU ops of a step are the graph's; the others are launched as they
    were. `lanes`: torch was asked to show all of a graph on one stream.
    """

    def change(trace: dict[str, Any]) -> None:
        missing = cut.get(trace["distributedInfo"]["rank"], ())
        trace["traceEvents"] = _events(trace["traceEvents"], missing, part, lanes)

    return rewritten(source, target, change)


def _events(events: list[Event], cut: tuple[int, ...], part: float, lanes: bool) -> list[Event]:
    marks = [e for e in events if e.get("cat") == "user_annotation"]
    marks = [event for event in marks if event["name"].startswith("ProfilerStep#")]
    steps = sorted(marks, key=lambda event: event["ts"])
    ops = [e for e in events if e.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")]
    calls = {e["args"]["correlation"]: e for e in events if e.get("cat") == "cuda_runtime"}
    launched = {op["args"]["correlation"] for op in ops}
    kept = [e for e in events if e.get("cat") in ("Trace", None)]
    # the host launches no op by itself, but waits where it did
    kept += [c for n, c in calls.items() if n not in launched and "Event" not in c["name"]]
    of_step = defaultdict(list)
    for op in sorted(ops, key=lambda op: op["args"]["correlation"]):
        called = calls[op["args"]["correlation"]]["ts"]
        of_step[sum(step["ts"] <= called for step in steps) - 1].append(op)
    eager: Counter[str] = Counter()
    for number, mine in of_step.items():
        inside = mine[: round(part * len(mine))]
        outside = mine[len(inside) :]
        for op in outside:
            if "Seq" in op["args"]:
                eager[op["args"]["Process Group Name"]] += 1
                op["args"]["Seq"] = 2 * NUMBER + eager[op["args"]["Process Group Name"]]
        if number in cut:
            continue
        first = calls[inside[0]["args"]["correlation"]]
        correlation = 900_000 + number
        call = {"name": "cudaGraphLaunch", "args": {"correlation": correlation}}
        kept += [steps[number], {**first, **call}, *_captured(inside, correlation, lanes), *outside]
        kept += [calls[op["args"]["correlation"]] for op in outside]
    return kept


def _captured(ops: list[Event], correlation: int, lanes: bool) -> list[Event]:
    count: Counter[str] = Counter()
    for node, op in enumerate(ops):
        args = op["args"]
        args.pop("External id", None)
        args |= {"correlation": correlation, "graph id": GRAPH}
        args["graph node id"] = node
        if "Collective name" in args:
            group = args["Process Group Name"]
            count[group] += 1
            args["Seq"] = str(NUMBER + count[group])
            if args["Collective name"] in ("send", "recv"):
                del args["Seq"]  # torch does not know it
        else:
            args["name"] = f"layer.{node % 2}"
        if lanes:
            args["original_stream"] = args["stream"]
            args["stream"] = op["tid"] = 7
    return ops
