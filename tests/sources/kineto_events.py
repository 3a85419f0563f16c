"""Events of a Kineto file, written and loaded, for the tests of this reader."""

import json
from pathlib import Path
from typing import Any

from duckdb import DuckDBPyConnection as Connection

from traceweave.sources import kineto
from traceweave.sources.model import Loaded

Event = dict[str, Any]


def load_file(con: Connection, path: Path) -> Loaded:
    """Load a file as source 1; one without a rank is rank 0."""
    trace = kineto.probe(path)
    if trace.processes[0].rank is None:
        trace = trace.with_ranks({0: (0, "test")})
    return kineto.load(con, trace, 1, lambda _: None)


def load_events(con: Connection, folder: Path, events: list[Event], **top: Any) -> Loaded:
    path = folder / "trace.json"
    whole = {"distributedInfo": {"rank": 0}, **top, "traceEvents": events}
    path.write_text(json.dumps(whole), encoding="utf-8")
    return load_file(con, path)


def span(name: str, ts: float, dur: float, cat: str = "cpu_op", **rest: Any) -> Event:
    """An event of the thread 9."""
    return {
        "ph": "X", "cat": cat, "name": name, "pid": 9, "tid": 9, "ts": ts, "dur": dur, **rest,
    }  # fmt: skip


def kernel(name: str, ts: float, dur: float, correlation: int, **args: Any) -> Event:
    """A kernel on stream 7."""
    args = {"device": 0, "stream": 7, "correlation": correlation, **args}
    return span(name, ts, dur, "kernel", pid=0, tid=7, args=args)


def launch(ts: float, dur: float, correlation: int, name: str = "cudaLaunchKernel") -> Event:
    return span(name, ts, dur, "cuda_runtime", args={"correlation": correlation})


def mark(ph: str, name: str, ts: float, **more: Any) -> Event:
    """An event without a length."""
    return {"ph": ph, "cat": "cpu_op", "name": name, "pid": 9, "tid": 9, "ts": ts, **more}
