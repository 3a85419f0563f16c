"""Rank discovery: file names, what traces say of themselves, and what the user says."""

from __future__ import annotations

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["traceweave.sources"]):
    from traceweave.errors import TraceweaveError
    from traceweave.sources.model import Process, Trace
    from traceweave.sources.ranks import RankRules, assign_ranks, compile_rank_pattern
    from traceweave.sources.runs import choose_run, split_runs

WORDS = [
    "rank",
    "local_rank",
    "worker",
    "r",
    "gpu",
    "node",
    "_",
    "-",
    ".",
    "/",
    "0",
    "1",
    "07",
    "x",
]


def discover(data: bytes) -> None:
    """Give ranks to a few traces and tell their runs apart."""
    given = atheris.FuzzedDataProvider(data)
    traces = [_trace(given, number) for number in range(given.ConsumeIntInRange(1, 5))]
    rules = {traces[0].path.name: (1,)} if given.ConsumeBool() else {}
    try:
        pattern = compile_rank_pattern(_text(given)) if given.ConsumeBool() else None
        assigned, _ = assign_ranks(traces, RankRules(rules, pattern))
        assert all(trace.by_rank for trace in assigned)
        runs = split_runs(assigned)
        assert sorted(str(t.path) for run in runs for t in run.traces) == sorted(
            str(t.path) for t in traces
        )
        choose_run(runs, given.ConsumeIntInRange(1, 3) if given.ConsumeBool() else None)
    except TraceweaveError as error:
        assert str(error)  # noqa: PT017


def _trace(given: atheris.FuzzedDataProvider, number: int) -> Trace:
    first = _maybe(given, 10**6)
    processes = tuple(
        Process(
            key=key,
            rank=_maybe(given, 4),
            rank_source="distributedInfo",
            world_size=_maybe(given, 4),
            pid=_maybe(given, 3),
            host=given.PickValueInList([None, "a", "b"]),
        )
        for key in range(given.ConsumeIntInRange(0, 3))
    )
    return Trace(
        Path("/traces", f"{_text(given)}{number}.json".lstrip("/")),
        "kineto",
        1,
        processes,
        first_ns=first,
        last_ns=None if first is None else first + (_maybe(given, 10**6) or 0),
    )


def _maybe(given: atheris.FuzzedDataProvider, most: int) -> int | None:
    return given.ConsumeIntInRange(0, most) if given.ConsumeBool() else None


def _text(given: atheris.FuzzedDataProvider) -> str:
    words = [given.PickValueInList(WORDS) for _ in range(given.ConsumeIntInRange(0, 8))]
    if given.ConsumeBool():
        words.append(given.ConsumeUnicodeNoSurrogates(8).replace("\0", "").replace("\n", ""))
    return "".join(words)


if __name__ == "__main__":
    atheris.Setup(sys.argv, discover)
    atheris.Fuzz()
