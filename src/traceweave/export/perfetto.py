"""The aligned timeline of all ranks as a trace for https://ui.perfetto.dev.

Times are aligned nanoseconds since the Unix epoch on Perfetto's boot clock, so that `ts` in
Perfetto's SQL is `start_ns` here; a clock snapshot says that the wall clock reads the same.

The queries only arrange events as tracks, slices and samples. What an analysis answers (gaps,
exposed communication, the critical path, memory in use) they take from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceweave import analyses
from traceweave.analyses.sweeps.columns import to_numpy
from traceweave.errors import QueryError
from traceweave.export.lanes import LaneKeeper
from traceweave.export.packets import LAUNCH_FLOW, PacketWriter
from traceweave.export.protos import load_protos
from traceweave.export.selection import Selection, run_span
from traceweave.export.tracks import Tracks
from traceweave.outputs import whole_file
from traceweave.places import place_of
from traceweave.store.database import first_line
from traceweave.targets import FileKind
from traceweave.vocabulary import script

BATCH_ROWS = 65_536
"""Rows in memory at a time."""


@dataclass(frozen=True)
class Written:
    """What an export wrote."""

    path: Path
    slices: int
    samples: int
    tracks: int
    size_bytes: int
    """0 where it went into a pipe."""


def write_perfetto(
    con: duckdb.DuckDBPyConnection, path: Path, selection: Selection | None = None
) -> Written:
    """Write the aligned timeline of the run in `con` to `path`, which is replaced if it exists.

    Slices keep their exact start and end; one that the selected time cuts is whole. Memory stays
    bounded whatever the run's size. Raises InputError if the file cannot be written, QueryError if
    the database cannot be read, TraceweaveError without Perfetto's classes.
    """
    protos = load_protos()
    try:
        with whole_file(path, FileKind.TIMELINE) as file:
            export = _Export(con, file, protos, selection or Selection())
            export.run()
    except duckdb.Error as error:
        raise QueryError(f"the database cannot be exported: {first_line(error)}") from error
    size = place_of(path).size() or 0
    return Written(path, export.slices, export.samples, export.tracks.written, size)


class _Export:
    """One export under way."""

    def __init__(
        self, con: duckdb.DuckDBPyConnection, file: IO[bytes], protos: Any, selection: Selection
    ) -> None:
        self.slices = 0
        self.samples = 0
        self._con = con
        self._protos = protos
        self._selection = selection
        self._writer = PacketWriter(file, protos)
        self._temporary: list[str] = []

    def run(self) -> None:
        try:
            self._prepare()
            self.tracks = Tracks(self._con, self._protos, self._selection)
            self._write_head()
            for rank in self.tracks.ranks:
                self._write_rank(rank)
        finally:
            for table in self._temporary:
                self._con.execute(f"DROP TABLE IF EXISTS temp.{table}")

    def _prepare(self) -> None:
        """Create the temporary tables that the queries of the slices join with."""
        chosen = self._selection
        ranks = None if chosen.ranks is None else list(chosen.ranks)
        steps = None if chosen.steps is None else list(chosen.steps)
        path = analyses.shared_rows(self._con, "path_pieces") if chosen.gaps else None
        pieces = (
            "SELECT NULL::INTEGER AS rank WHERE FALSE" if path is None else f"FROM {path.alias}"
        )
        self._create("export_path", pieces, {})
        self._create("export_tracks", _query("tracks"), {"gaps": chosen.gaps})
        self._create("export_calls", _query("calls"), {"ranks": ranks})
        self._create("export_windows", _query("windows"), {"steps": steps})
        analyses.provide(self._con, _query("memory"))
        self._create("export_memory", _query("memory"), {})
        if chosen.gaps:
            for name in ("gaps", "breakdown"):
                self._temporary.append(f"export_{name}")
                analyses.run(self._con, name).query(
                    "found", f"CREATE OR REPLACE TEMP TABLE export_{name} AS FROM found"
                )

    def _create(self, table: str, sql: str, params: dict[str, object]) -> None:
        self._temporary.append(table)
        self._con.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS {sql}", params)

    def _write_head(self) -> None:
        protos = self._protos
        start, _ = run_span(self._con)
        boot, real = protos.BUILTIN_CLOCK_BOOTTIME, protos.BUILTIN_CLOCK_REALTIME
        clock = protos.ClockSnapshot.Clock
        clocks = [clock(clock_id=c, timestamp=start) for c in (boot, real)]
        snapshot = protos.ClockSnapshot(clocks=clocks, primary_trace_clock=boot)
        self._writer.packet(timestamp=start, clock_snapshot=snapshot)
        # processes come in the order of their ranks only if the descriptor of the root says so
        descriptor = protos.TrackDescriptor
        order = descriptor(uuid=0, process_ordering=descriptor.PROCESS_ORDERING_EXPLICIT)
        self._writer.packet(track_descriptor=order)

    def _write_rank(self, rank: int | None) -> None:
        chosen = self._selection
        if rank is not None:
            self._write_slices("steps", rank)
            if chosen.gaps:
                self._write_slices("path", rank)
                self._write_slices("gaps", rank)
            self._write_slices("gpu", rank, host=chosen.host, launch_flow=LAUNCH_FLOW)
        if chosen.host:
            self._write_slices("host", rank, launch_flow=LAUNCH_FLOW)
            self._write_slices("other", rank)
        self._write_samples("counters", rank)
        if rank is not None and chosen.gaps:
            self._write_samples("exposed", rank)

    def _write_slices(self, query: str, rank: int | None, **more: object) -> None:
        lanes = LaneKeeper()
        for batch in self._read(query, rank, **more):
            track = to_numpy(batch["track"])
            lane = lanes.assign(track, to_numpy(batch["start_ns"]), to_numpy(batch["end_ns"]))
            self._writer.slices(batch, self._uuids(track, lane))
            self.slices += len(batch)

    def _write_samples(self, query: str, rank: int | None) -> None:
        for batch in self._read(query, rank):
            track = to_numpy(batch["track"])
            self._writer.samples(batch, self._uuids(track, np.zeros(len(track), np.int32)))
            self.samples += len(batch)

    def _uuids(
        self, track: npt.NDArray[np.int64], lane: npt.NDArray[np.int32]
    ) -> npt.NDArray[np.int64]:
        """Return the uuid of every row's lane; descriptors of new ones are written."""
        keys, place = np.unique((track << 32) + lane, return_inverse=True)
        uuids = []
        for number, lane_ in zip((keys >> 32).tolist(), (keys & 0xFFFFFFFF).tolist(), strict=True):
            for descriptor in self.tracks.describe(number, lane_):
                self._writer.packet(track_descriptor=descriptor)
            uuids.append(self.tracks.uuid(number, lane_))
        return np.array(uuids, dtype=np.int64)[place]

    def _read(self, query: str, rank: int | None, **more: object) -> Iterator[pa.RecordBatch]:
        chosen = self._selection
        steps = None if chosen.steps is None else list(chosen.steps)
        params = {"rank": rank, "steps": steps, "from_ns": chosen.start_ns, "to_ns": chosen.end_ns}
        relation = self._con.sql(_query(query), params={**params, **more})
        yield from relation.to_arrow_reader(BATCH_ROWS)


def _query(name: str) -> str:
    return script(__package__, f"queries/{name}.sql")
