"""One rank's Kineto trace as a stream of text.

Text is made in bulk: every different event is a template with the same number of slots, and a chunk
of events is one `%` of the joined templates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, Literal

import numpy as np

from traceweave_simulator.config import Times
from traceweave_simulator.kineto_layout import device_annotation, footer, header, metadata
from traceweave_simulator.kineto_templates import Templates
from traceweave_simulator.places import FIRST_CORRELATION, device_of
from traceweave_simulator.program import COMPUTE_STREAM
from traceweave_simulator.run import Index, Run

Layout = Literal["torch-2.12", "torch-2.0"]

CHUNK = 20_000
"""Events formatted at once."""

BASE_STEP_NS = 7_889_238_000_000_000
"""Kineto floors `baseTimeNanoseconds` to a multiple of this (about three months)."""


@dataclass(frozen=True)
class KinetoRank:
    """The trace of one rank as a stream of text."""

    run: Run
    rank: int
    layout: Layout
    integer_us: bool

    @property
    def new(self) -> bool:
        """Return whether this is today's layout."""
        return self.layout == "torch-2.12"

    @property
    def base_ns(self) -> int:
        """Return what the file's timestamps count from, epoch ns."""
        if not self.new:
            return 0
        first = int(self.run.local(self.rank, np.zeros(1, dtype=np.int64))[0])
        return first // BASE_STEP_NS * BASE_STEP_NS

    def times(self, elapsed: Times) -> Times:
        """Return what the file counts, ns, at true times since the run's start."""
        return self.run.local(self.rank, elapsed) - self.base_ns

    def stamp(self, ns: int) -> str:
        """Return one timestamp as the file writes it."""
        return str(ns // 1000) if self.integer_us else f"{ns // 1000}.{ns % 1000:03d}"

    def slots(self, start: Times, end: Times) -> list[list[Any]]:
        """Return the slots of ts and dur: two columns if whole microseconds, else four."""
        if self.integer_us:
            first = start // 1000
            return [first.tolist(), (end // 1000 - first).tolist()]
        length = end - start
        return [
            (start // 1000).tolist(),
            (start % 1000).tolist(),
            (length // 1000).tolist(),
            (length % 1000).tolist(),
        ]

    def texts(self) -> Iterator[str]:
        """Yield the file, piece by piece."""
        run, rank = self.run, self.rank
        device = device_of(run, rank)
        first, last = self._limits()
        yield header(run, rank, self.new, self.base_ns)
        meta = metadata(
            self.stamp(first),
            self.templates.pid,
            device,
            self.templates.tids,
            self._streams(),
            self.new,
        )
        if self.new:
            yield meta
        yield from self._steps()
        yield from self._ranges()
        yield from self._calls()
        yield from self._gpu()
        if self.run.config.cuda_sync_events:
            yield from self._syncs()
        if self.new:
            yield from self._gpu_annotations()
        else:
            yield meta
        begin, end = first - 50_000, last + 2_000_000
        length = self._length(begin, last)
        yield footer(self.stamp(begin), length, self.stamp(end), f"trace_rank{rank}.json")

    @cached_property
    def templates(self) -> Templates:
        """Return the text of every different event."""
        return Templates(self.run, self.rank, self.new, self.integer_us)

    def _length(self, start: int, end: int) -> str:
        return str(end // 1000 - start // 1000) if self.integer_us else self.stamp(end - start)

    def _limits(self) -> tuple[int, int]:
        begins = [
            t.start[self.run.recorded(t.start, self.rank), self.rank]
            for t in (self.run.calls, self.run.gpu)
        ]
        ends = [
            t.end[self.run.recorded(t.start, self.rank), self.rank]
            for t in (self.run.calls, self.run.gpu)
        ]
        edge = np.array([np.concatenate(begins).min(), np.concatenate(ends).max()])
        first, last = self.times(edge).tolist()
        return first, last

    def _streams(self) -> list[int]:
        rows = self.run.recorded(self.run.gpu.start, self.rank)
        return sorted({self.run.gpu.kinds[k].stream for k in np.unique(self.run.gpu.kind[rows])})

    def _fill(self, templates: list[str], kind: Index, columns: list[list[Any]]) -> Iterator[str]:
        """Yield the events of `kind`, their slots filled from `columns`, in chunks."""
        names = kind.tolist()
        for at in range(0, len(names), CHUNK):
            part = slice(at, at + CHUNK)
            values = chain.from_iterable(zip(*(c[part] for c in columns), strict=True))
            yield "".join([templates[k] for k in names[part]]) % tuple(values)

    # -- host

    def _steps(self) -> Iterator[str]:
        run, rank = self.run, self.rank
        steps = run.recorded(run.step_start, rank)
        start, end = self.times(run.step_start[steps, rank]), self.times(run.step_end[steps, rank])
        template = self.templates.step()
        number = (steps + run.config.first_step).tolist()
        external = (len(run.ranges) + 1 + steps).tolist()
        zeros = [0] * len(steps)
        columns = [number, *self.slots(start, end), external, zeros, zeros, zeros]
        yield from self._fill([template], np.zeros(len(steps), dtype=np.int64), columns)

    def _ranges(self) -> Iterator[str]:
        run, rank = self.run, self.rank
        templates = self.templates.ranges()
        for thread in (0, 1):
            of_thread = np.array([k.thread == thread for k in run.ranges.kinds])
            rows = run.recorded(run.ranges.start, rank)
            rows = rows[of_thread[run.ranges.kind[rows]]]
            start, end = (
                self.times(run.ranges.start[rows, rank]),
                self.times(run.ranges.end[rows, rank]),
            )
            order = np.lexsort((-end, start))
            rows, start, end = rows[order], start[order], end[order]
            slots = self.slots(start, end)
            sequence = run.range_sequence[rows]
            flow = sequence - int(run.range_sequence.max(initial=0)) + len(run.ranges)
            columns = [
                *slots,
                (rows + 1).tolist(),
                sequence.tolist(),
                rows.tolist(),
                self._comm_seq(rows),
                np.maximum(flow, 0).tolist(),
            ]
            columns += slots[: len(slots) // 2]
            yield from self._fill(templates, run.ranges.kind[rows], columns)

    def _comm_seq(self, rows: Index) -> list[int]:
        run = self.run
        position = np.full(len(run.gpu) + 1, -1, dtype=np.int64)
        position[run.collective_rows] = np.arange(len(run.collective_rows))
        where = position[run.range_comm[rows]]
        sequence = np.append(run.sequence[:, self.rank], -1)
        result: list[int] = sequence[where].tolist()
        return result

    def _calls(self) -> Iterator[str]:
        run, rank = self.run, self.rank
        rows = run.recorded(run.calls.start, rank)
        start, end = self.times(run.calls.start[rows, rank]), self.times(run.calls.end[rows, rank])
        external = run.call_scope[rows] + 1
        slots = self.slots(start, end)
        correlation = (rows + FIRST_CORRELATION).tolist()
        columns = [
            *slots,
            external.tolist(),
            correlation,
            correlation,
            *slots[: len(slots) // 2],
        ]
        yield from self._fill(self.templates.calls(), run.calls.kind[rows], columns)

    # -- device

    def _gpu(self) -> Iterator[str]:
        run, rank = self.run, self.rank
        rows = run.recorded(run.gpu.start, rank)
        rows = rows[np.argsort(run.gpu.start[rows, rank], kind="stable")]
        start, end = self.times(run.gpu.start[rows, rank]), self.times(run.gpu.end[rows, rank])
        sizes = np.array([k.bytes for k in run.gpu.kinds])[run.gpu.kind[rows]]
        bandwidth = sizes / np.maximum(end - start, 1)
        calls = run.gpu_call[rows]
        external = self._external(calls)
        where = np.searchsorted(run.collective_rows, rows)
        sequence = np.append(run.sequence[:, rank], -1)[np.minimum(where, len(run.collective_rows))]
        slots = self.slots(start, end)
        correlation = (calls + FIRST_CORRELATION).tolist()
        columns = [
            *slots,
            external.tolist(),
            correlation,
            bandwidth.tolist(),
            sequence.tolist(),
            correlation,
            *slots[: len(slots) // 2],
        ]
        yield from self._fill(self.templates.gpu(), run.gpu.kind[rows], columns)

    def _syncs(self) -> Iterator[str]:
        """What streams and the host waited for, within the calls that let them."""
        run, rank = self.run, self.rank
        templates = self.templates.syncs()
        rows = run.recorded(run.calls.start, rank)
        rows = rows[np.isin(run.calls.kind[rows], list(templates))]
        start, end = self.times(run.calls.start[rows, rank]), self.times(run.calls.end[rows, rank])
        correlation = rows + FIRST_CORRELATION
        # an event is recorded by the call before the one that lets a stream wait for it
        columns = [*self.slots(start, end), (correlation - 1).tolist(), correlation.tolist()]
        texts = [templates.get(kind, "") for kind in range(len(run.calls.kinds))]
        yield from self._fill(texts, run.calls.kind[rows], columns)

    def _external(self, calls: Index) -> Index:
        """Return the External id of the operator that made each call; 0 if that was not
        recorded."""
        run = self.run
        scope = run.call_scope[calls]
        begin, end = run.window(self.rank)
        known = run.ranges.start[scope, self.rank]
        return np.where((scope >= 0) & (known >= begin) & (known < end), scope + 1, 0)

    def _gpu_annotations(self) -> Iterator[str]:
        """The device's shadow of each step: from its first to its last op on the compute stream."""
        run, rank = self.run, self.rank
        rows = run.recorded(run.gpu.start, rank)
        stream = np.array([k.stream for k in run.gpu.kinds])[run.gpu.kind[rows]]
        rows = rows[stream == COMPUTE_STREAM]
        step_of = run.step_of(rows, rank)
        for step in np.unique(step_of[step_of >= 0]).tolist():
            mine = rows[step_of == step]
            edges = np.array([run.gpu.start[mine, rank].min(), run.gpu.end[mine, rank].max()])
            start, end = self.times(edges).tolist()
            yield device_annotation(
                f"ProfilerStep#{step + run.config.first_step}",
                (device_of(run, rank), COMPUTE_STREAM),
                (self.stamp(start), self._length(start, end)),
                len(run.ranges) + 1 + step,
            )
