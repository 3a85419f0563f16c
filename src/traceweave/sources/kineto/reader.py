"""From the bytes of a Kineto file to the table `new_events`, one row per event, through DuckDB's
JSON reader.

The array is streamed into DuckDB over pipes. DuckDB keeps all it has read of a pipe until the
statement ends, so one statement reads a bounded stretch, and memory does not grow with the file.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from string import Template
from typing import IO

import duckdb

from traceweave.sources.batches import one_ahead, transaction
from traceweave.sources.kineto.first_steps import PIECE_BYTES, without_later
from traceweave.sources.kineto.repair import Unparsed, repair_block, rewrite_block
from traceweave.sources.kineto.stream import MAX_EVENT_BYTES, EventStream
from traceweave.sources.model import Report, Trace
from traceweave.vocabulary import script

MAX_FAST_EVENT_BYTES = 16 << 20
"""DuckDB's reader takes a buffer of twice this per part; a larger event is read with care."""

STRETCH_BYTES = 16 << 20
"""One statement reads about this much per thread. To plan another one costs less than the memory
that more would take, three times over: here, in the pipe's reader and in its copy."""

EXACT_DOUBLE_US = 8_700_000_000_000
"""Microseconds up to which a double tells three decimals apart (2**43, less a margin)."""

_INEXACT_TIME = re.compile(rb'("ts"\s*:\s*)(\d{13,}\.\d+)')


def _reading_script(time_type: str, us: str, ns: str) -> Template:
    """Return read.sql, which gets integer nanoseconds out of decimal microseconds of this type by
    `us` and `ns`; what is left open are the file, its pipes and how large its events may be.
    """
    of_time = {f"{t}_us": us.format(t) for t in ("ts", "dur")}
    of_time |= {f"{t}_ns": ns.format(t) for t in ("ts", "dur")}
    text = Template(script(__package__, "read.sql"))
    return Template(text.safe_substitute(of_time, time_type=time_type))


# Whole and fractional part apart: each is exact in a double, their sum times 1000 is not.
_FAST = _reading_script(
    "DOUBLE",
    us="{0}",
    ns="CAST(floor({0}) AS BIGINT) * 1000 + CAST(round(({0} - floor({0})) * 1000) AS BIGINT)",
)
_EXACT = _reading_script(
    "VARCHAR",
    us="TRY_CAST({0} AS DECIMAL(20, 3))",
    ns="CAST(TRY_CAST({0} AS DECIMAL(20, 3)) * 1000 AS BIGINT)",
)


_KINDS = """
CREATE OR REPLACE TEMP TABLE event_kinds AS
SELECT
    source_id, pid, cat, lane, count(*) AS events, min(rowid) AS first_row,
    bool_or(since_base_ns = 0) AS has_zero, min(since_base_ns) AS first_ns,
    max(since_base_ns + coalesce(duration_ns, 0)) AS last_ns
FROM new_events GROUP BY ALL
"""


@dataclass(frozen=True)
class Reading:
    """What was read besides the rows of new_events."""

    head: bytes
    tail: bytes
    unparsed: Unparsed
    """What was no event; nothing unless the file is damaged."""
    damaged: str | None
    cut_short: bool
    """Whether events may be missing that were not counted."""


def stage_events(con: duckdb.DuckDBPyConnection) -> None:
    """Create the empty staging tables, and those of what the categories of events stand for."""
    con.execute(script(__package__, "staging.sql"))


def count_events(con: duckdb.DuckDBPyConnection) -> None:
    """List what kinds of events there are, which are few, in the temporary table `event_kinds`."""
    con.execute(_KINDS)


def read_events(
    con: duckdb.DuckDBPyConnection, trace: Trace, report: Report, source_id: int = 0
) -> Reading:
    """Add every event of a file to the temporary table `new_events` of `con`, in file order.

    One of DuckDB's threads reads them, or all of them do. Most files are read at full speed; the
    few with events that are not JSON are read again with care, and those that DuckDB still refuses
    (a key that occurs twice) are written anew.

    Raises:
        InputError: the file has no traceEvents array, or unpacks to more than it may.
    """
    threads = _threads(con) if trace.all_threads else 1
    with suppress(*_REFUSED), trace.path.open("rb") as file:
        stream = _stream(file, trace, report)
        _copy(con, stream.blocks(), source_id, threads)
        return _reading(stream, Unparsed())
    with suppress(*_REFUSED):
        return _read_with_care(con, trace, bytes, source_id)
    return _read_with_care(con, trace, rewrite_block, source_id)


_REFUSED = (duckdb.InvalidInputException, duckdb.DataError)
"""What DuckDB says of text that is not the JSON it expects."""


def _threads(con: duckdb.DuckDBPyConnection) -> int:
    return int(con.execute("SELECT current_setting('threads')").fetchall()[0][0])


def _read_with_care(
    con: duckdb.DuckDBPyConnection, trace: Trace, finish: Callable[[bytes], bytes], source_id: int
) -> Reading:
    unparsed = Unparsed()
    with trace.path.open("rb") as file:
        stream = _stream(file, trace)
        blocks = (repair_block(block, unparsed) for block in stream.blocks())
        quoted = (finish(_quote_times(block)) for block in blocks if block)
        _copy(con, quoted, source_id, careful=True)
    return _reading(stream, unparsed)


def _stream(file: IO[bytes], trace: Trace, report: Report | None = None) -> EventStream:
    stream = partial(EventStream, file, report, most_bytes=trace.most_bytes)
    if trace.beginning is None:
        return stream()
    early = partial(without_later, beginning=trace.beginning)
    return stream(block_bytes=PIECE_BYTES, through=early)


def _reading(stream: EventStream, unparsed: Unparsed) -> Reading:
    damaged = stream.damaged
    if damaged is None and unparsed.count:
        are = "event is" if unparsed.count == 1 else "events are"
        damaged = f"{unparsed.count} {are} not valid JSON"
    for beginning in stream.left_out:
        unparsed.add(beginning)
    if stream.truncated:
        unparsed.add(stream.truncated)
    return Reading(stream.head, stream.tail, unparsed, damaged, stream.cut_short)


def _copy(
    con: duckdb.DuckDBPyConnection,
    blocks: Iterator[bytes],
    source_id: int,
    threads: int = 1,
    careful: bool = False,
) -> None:
    """Add all blocks to new_events, a stretch at a time; the next is cut while one is read."""
    most = MAX_EVENT_BYTES if careful else MAX_FAST_EVENT_BYTES
    with transaction(con):
        for stretch in one_ahead(_stretches(blocks, threads * STRETCH_BYTES)):
            exact = careful or any(map(_has_inexact_times, stretch))
            finish = _quote_times if exact else bytes
            parts = [map(finish, part) for part in _deal(stretch, threads)]
            reading = (_EXACT if exact else _FAST).substitute
            if stretch:
                _read_parts(con, partial(reading, source_id=source_id, max_bytes=most), parts)


def _stretches(blocks: Iterator[bytes], stretch_bytes: int) -> Iterator[list[bytes]]:
    """Gather blocks to about `stretch_bytes`."""
    gathered: list[bytes] = []
    size = 0
    for block in blocks:
        gathered.append(block)
        size += len(block)
        if size >= stretch_bytes:
            yield gathered
            gathered, size = [], 0
    yield gathered


def _deal(stretch: list[bytes], threads: int) -> list[list[bytes]]:
    """Cut a list of blocks into at most `threads` lists of about the same length, in order."""
    count = max(1, min(threads, len(stretch)))
    bounds = [len(stretch) * part // count for part in range(count + 1)]
    return [stretch[start:end] for start, end in pairwise(bounds)]


def _read_parts(
    con: duckdb.DuckDBPyConnection, reading: Callable[..., str], parts: Sequence[Iterator[bytes]]
) -> None:
    """Run read.sql over pipes that threads fill, one for each part."""
    pipes = [os.pipe() for _ in parts]
    failures: list[BaseException] = []
    feeders = [
        threading.Thread(target=_feed, args=(writable, blocks, failures), daemon=True)
        for (_, writable), blocks in zip(pipes, parts, strict=True)
    ]
    try:
        for feeder in feeders:
            feeder.start()
        listed = ", ".join(f"'/dev/fd/{readable}'" for readable, _ in pipes)
        con.execute(reading(pipes=listed)).fetchall()
    except duckdb.Error:
        if not failures:  # else the reader only saw a feeder stop
            raise
    finally:
        for readable, _ in pipes:
            os.close(readable)
        for (_, writable), feeder in zip(pipes, feeders, strict=True):
            if feeder.ident is None:  # there was no thread for it
                os.close(writable)
            else:
                feeder.join()
    if failures:
        raise failures[0]


def _feed(writable: int, blocks: Iterator[bytes], failures: list[BaseException]) -> None:
    """Write an array of all blocks, and close the pipe whatever happens: its reader waits."""
    separator = b"["
    try:
        for block in blocks:
            _write_all(writable, separator)
            _write_all(writable, block)
            separator = b","
        _write_all(writable, b"[]" if separator == b"[" else b"]")
    except BrokenPipeError:
        pass  # a reader that gives up closes the pipe; what went wrong is its to tell
    except BaseException as error:  # handed over to the thread that started us
        failures.append(error)
    finally:
        os.close(writable)


def _write_all(writable: int, block: bytes) -> None:
    rest = memoryview(block)
    while rest:
        rest = rest[os.write(writable, rest) :]


def _has_inexact_times(block: bytes) -> bool:
    first = _INEXACT_TIME.search(block, 0, 1 << 16)
    return first is not None and float(first[2]) > EXACT_DOUBLE_US


def _quote_times(block: bytes) -> bytes:
    """Make text of times that a double cannot hold (torch 2.2 and 2.3 wrote them absolute)."""
    return _INEXACT_TIME.sub(rb'\1"\2"', block) if _has_inexact_times(block) else block
