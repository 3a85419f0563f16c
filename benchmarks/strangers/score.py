"""Compare a database with what was true."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

import traceweave

from .recording import EPOCH_NS, Recording

Array = npt.NDArray[np.float64]
MOMENTS = 200
"""At which clocks are compared: when calls between hosts end. Where a clock steps between two of
them, nothing tells when."""


@dataclass(frozen=True)
class Score:
    """What was found of a job; times in us."""

    calls: int
    matched_all: float
    matched_any: float
    wrong: int
    p50: float
    p95: float
    max: float
    outside: int
    rows: int
    wall: int

    def __str__(self) -> str:
        return (
            f"calls {self.calls:6} matched {self.matched_all:6.1%} of whole {self.matched_any:6.1%}"
            f" of any, wrong {self.wrong:4}, error {self.p50:8.2f} {self.p95:8.2f} {self.max:9.2f}"
            f", outside {self.outside:2} of {self.rows:3}, wall {self.wall}"
        )


def score(path: str, recordings: list[Recording], members: dict[int, int]) -> Score:
    """Score a database; `members` is how many ranks each true operation has."""
    with traceweave.open(path) as run:
        calls = run.sql("SELECT rank, start_local_ns, stream, collective_id FROM collectives"
                        " WHERE gpu_op_id IS NOT NULL")  # fmt: skip
        spans = run.sql("SELECT * FROM clocks ORDER BY rank, from_local_ns NULLS FIRST")
    recorded: dict[int, int] = {}
    for recording in recordings:
        for parts in recording.truth.values():
            for number in parts:
                recorded[number] = recorded.get(number, 0) + 1
    truth = {r.rank: r.truth for r in recordings}
    joined: dict[tuple[int, int, int], bool] = {}
    instances: dict[int, list[frozenset[int]]] = {}
    for rank, start, stream, instance in calls.itertuples(index=False):
        parts = truth[rank].get((start, stream), frozenset([-1]))
        known = not pd.isna(instance)
        joined[rank, start, stream] = joined.get((rank, start, stream), False) or known
        if known:
            instances.setdefault(int(instance), []).append(parts)
    beyond = [parts for recording in recordings for parts in recording.beyond]
    wrong = sum(1 for them in instances.values() if not _hang_together(them, beyond))
    whole: list[bool] = []
    some: list[bool] = []
    for rank, starts in truth.items():
        for at, parts in starts.items():
            if all(recorded[p] == members[p] for p in parts):
                whole.append(joined.get((rank, *at), False))
            if all(recorded[p] > 1 for p in parts):
                some.append(joined.get((rank, *at), False))
    clocks = {rank: spans[spans["rank"] == rank] for rank in truth}
    errors, outside, rows = _errors(clocks, recordings)
    p50, p95, most = np.percentile(errors, [50, 95, 100]) if errors.size else (np.nan,) * 3
    wall = {int(r) for r, s in zip(spans["rank"], spans.status, strict=True)
            if s in ("wall clock", "unaligned")}  # fmt: skip
    return Score(sum(map(len, truth.values())), float(np.mean(whole or [True])),
                 float(np.mean(some or [True])), wrong, float(p50), float(p95), float(most),
                 outside, rows, len(wall))  # fmt: skip


def _hang_together(calls: list[frozenset[int]], beyond: list[frozenset[int]]) -> bool:
    """Say whether calls have true operations in common, each with some other, and so all.

    Two of a ring have them with one between, whose kernel may lie beyond its window (`beyond`).
    """
    reached, rest = calls[0], calls[1:]
    while near := [parts for parts in rest if parts & reached]:
        reached = reached.union(*near)
        rest = [parts for parts in rest if not parts & reached]
    if not rest:
        return True
    between = [parts for parts in beyond if parts & reached and any(parts & one for one in rest)]
    return bool(between) and _hang_together([reached.union(*between), *rest], [])


def _aligned(rows: pd.DataFrame, local: npt.NDArray[np.int64]) -> Array:
    """Apply a rank's rows of `clocks`; the result is ns since the epoch of the jobs."""
    begins = [-(1 << 62) if pd.isna(b) else int(b) for b in rows["from_local_ns"]]
    which = np.searchsorted(np.array(begins), local, side="right") - 1
    offset, at = (rows[c].to_numpy(np.int64)[which] for c in ("offset_ns", "reference_local_ns"))
    drift = rows["drift_ppm"].to_numpy(np.float64)[which]
    value = (local - EPOCH_NS + offset) + drift * 1e-6 * (local - at)
    return np.asarray(value, np.float64)


def _local(recording: Recording, true_ns: Array) -> npt.NDArray[np.int64]:
    return EPOCH_NS + np.rint(recording.clock.local(true_ns)).astype(np.int64)


def _meetings(recordings: list[Recording]) -> Array:
    """Return the ends of all calls between hosts, true ns."""
    host = recordings[0].job.host
    ends = {
        event.kernel.end
        for recording in recordings
        for event in recording.events
        if event.seen and len({host(r) for p in event.kernel.parts for r in p.members}) > 1
    }
    return 1e3 * np.array(sorted(ends))


def _errors(clocks: dict[int, pd.DataFrame], recordings: list[Recording]) -> tuple[Array, int, int]:
    """Errors between ranks of different hosts, us; offsets outside bounds, and of how many."""
    job = recordings[0].job
    begin = max(float(r.clock.true(max(r.begin, r.steps[0][1]) - EPOCH_NS)) for r in recordings)
    finish = min(float(r.clock.true(r.finish - EPOCH_NS)) for r in recordings)
    moments = _meetings(recordings)
    moments = moments[(begin <= moments) & (moments <= finish)]
    moments = moments[:: max(1, len(moments) // MOMENTS)]
    apart = {r.rank: _aligned(clocks[r.rank], _local(r, moments)) - moments for r in recordings}
    errors = [
        apart[a.rank] - apart[b.rank]
        for a in recordings
        for b in recordings
        if a.rank < b.rank and (job.weather.per_rank or a.host != b.host)
    ]
    outside = count = 0
    by_rank = {r.rank: r for r in recordings}
    for rank, rows in clocks.items():
        recording = by_rank[rank]
        for row in rows.to_dict("records"):
            if pd.isna(row["bound_ns"]):
                continue
            at = int(row["reference_local_ns"]) - EPOCH_NS
            true = recording.clock.true(np.array([at], np.float64))
            reference = by_rank[int(row["reference_rank"])]
            common = _aligned(clocks[reference.rank], _local(reference, true))
            count += 1
            outside += abs(float(common[0]) - at - int(row["offset_ns"])) > int(row["bound_ns"]) + 2
    return np.abs(np.concatenate(errors)) / 1e3, outside, count
