"""Tracks: what they are called, how they are ordered, and their descriptors.

A rank is a process (pid = rank); its streams, host threads, steps and counters are tracks of that
process. Descriptors are written when a track's first event is, so that no track is empty.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import duckdb

from traceweave.export.selection import Selection

NO_RANK_PID = 1_000_000_000
"""Process id of the processes that are no rank; a real one could be some rank's number."""

_TRUSTED_CLOCKS = ("aligned", "same host")
_LANES = 1_000
"""Places between one track and the next in the order of a process, for lanes."""


@dataclass(frozen=True)
class Track:
    """One row of tracks.sql."""

    track: int
    rank: int | None
    kind: str
    pid: int | None
    number: int | None
    label: str | None
    unit: str | None

    @property
    def samples(self) -> bool:
        """Whether it holds samples of a value instead of slices."""
        return self.kind in ("counter", "exposed")


@dataclass(frozen=True)
class _Rank:
    name: str
    backend: str | None
    devices: int


class Tracks:
    """The tracks of a run by their uuid; further lanes get uuids as they are met."""

    def __init__(self, con: duckdb.DuckDBPyConnection, protos: Any, selection: Selection) -> None:
        self._protos = protos
        rows = con.execute("SELECT * FROM export_tracks ORDER BY track").fetchall()
        tracks = [Track(*row) for row in rows]
        wanted = selection.ranks
        self._tracks = {t.track: t for t in tracks if wanted is None or t.rank in wanted}
        self._ranks = _read_ranks(con)
        self._processes: dict[int | None, int] = {}
        self._lanes: dict[tuple[int, int], int] = {}
        self._known: set[int] = set()
        self._next = len(tracks) + 1

    @property
    def ranks(self) -> list[int | None]:
        """Ranks that have a track, in the order of the file; None last: processes without one."""
        return list(dict.fromkeys(t.rank for t in self._tracks.values()))

    @property
    def written(self) -> int:
        """How many tracks have been described."""
        return len(self._known)

    def uuid(self, track: int, lane: int) -> int:
        """Return the uuid of a lane of a track; lane 0 is the track itself."""
        if not lane:
            return track
        if (track, lane) not in self._lanes:
            self._lanes[track, lane] = self._take_uuid()
        return self._lanes[track, lane]

    def describe(self, track: int, lane: int) -> Iterator[Any]:
        """Yield the descriptors that have to come before the first event on a lane of a track."""
        uuid = self.uuid(track, lane)
        if uuid in self._known:
            return
        known = self._tracks[track]
        if known.rank not in self._processes:
            self._processes[known.rank] = self._take_uuid()
            yield self._process(known.rank)
        self._known.add(uuid)
        yield self._describe(known, uuid, lane)

    def _take_uuid(self) -> int:
        self._next += 1
        return self._next - 1

    def _process(self, rank: int | None) -> Any:
        last = max((r for r in self._ranks if r is not None), default=0) + 1
        descriptor = self._protos.TrackDescriptor(
            uuid=self._processes[rank],
            child_ordering=self._protos.TrackDescriptor.EXPLICIT,
            sibling_order_rank=last if rank is None else rank,
        )
        descriptor.process.pid = NO_RANK_PID if rank is None else rank
        descriptor.process.process_name = (
            "processes without a rank" if rank is None else self._ranks[rank].name
        )
        return descriptor

    def _describe(self, track: Track, uuid: int, lane: int) -> Any:
        protos = self._protos.TrackDescriptor
        name = self._name(track)
        descriptor = protos(
            uuid=uuid,
            parent_uuid=self._processes[track.rank],
            name=name if not lane else f"{name} ({lane + 1})",
            sibling_order_rank=track.track * _LANES + min(lane, _LANES - 1),
            sibling_merge_behavior=protos.SIBLING_MERGE_BEHAVIOR_NONE,
        )
        if track.samples:
            units = self._protos.CounterDescriptor
            known = {"bytes": units.UNIT_SIZE_BYTES, "ns": units.UNIT_TIME_NS}
            descriptor.counter.SetInParent()
            if track.unit in known:
                descriptor.counter.unit = known[track.unit]
            elif track.unit:
                descriptor.counter.unit_name = track.unit
        return descriptor

    def _name(self, track: Track) -> str:
        rank = None if track.rank is None else self._ranks.get(track.rank)
        where = f"GPU {track.pid} " if rank is not None and rank.devices > 1 else ""
        if track.kind == "stream":
            label = {"communication": _library(rank), "memory": "copies"}.get(
                track.label or "", track.label
            )
            return f"{where}stream {track.number} ({label})"
        if track.kind == "thread":
            process = f"process {track.pid} " if track.rank is None else ""
            return f"{process}thread {track.number}" + (f" ({track.label})" if track.label else "")
        fixed = {
            "steps": "steps",
            "gpu steps": "steps on the GPU",
            "path": "critical path",
            "gaps": f"{where}idle gaps",
        }
        label = track.label or ""
        if track.kind == "other":
            label = label.replace("gpu_user_annotation", "annotations of stream").replace("_", " ")
        return fixed.get(track.kind) or label or track.kind


def _library(rank: _Rank | None) -> str:
    backend = rank.backend if rank is not None else None
    return "NCCL" if backend and "nccl" in backend.lower() else "communication"


def _read_ranks(con: duckdb.DuckDBPyConnection) -> dict[int, _Rank]:
    rows = con.execute(
        "SELECT r.rank, r.host, r.gpu_name, r.device, c.status, r.backend, d.devices"
        " FROM ranks AS r"
        " LEFT JOIN (SELECT rank, any_value(status) AS status FROM clocks GROUP BY rank) AS c"
        " USING (rank)"
        " LEFT JOIN (SELECT rank, count(DISTINCT device) AS devices FROM gpu_ops GROUP BY rank)"
        " AS d USING (rank)"
    ).fetchall()
    ranks = {}
    for rank, host, gpu, device, status, backend, devices in rows:
        facts = [host, gpu]
        if gpu is None and device is not None:
            facts.append(f"device {device}")
        if status not in _TRUSTED_CLOCKS and len(rows) > 1:
            facts.append(f"clock: {status or 'unaligned'}")
        known = ", ".join(str(fact) for fact in facts if fact)
        ranks[int(rank)] = _Rank(
            f"rank {rank}" + (f" ({known})" if known else ""), backend, int(devices or 0)
        )
    return ranks
