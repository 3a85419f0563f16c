"""What traceweave.capture writes beside the report of an nsys that does the recording: who the
process is, what its groups are for, what it runs with.

Its clock probes are left out: nsys counts from the start of its session, whose place on the clock
that was probed it does not tell as exactly.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import orjson

from traceweave.errors import InputError
from traceweave.sources.captured import parse_captured, store_captured
from traceweave.sources.model import Loaded, Process, Report, Trace
from traceweave.sources.values import MOST_RANK, mapping, text, whole

_FIRST = b'{"traceweave":'
_MOST_BYTES = 64 << 20


def recognize(path: Path, head: bytes) -> bool:
    """Tell whether a file is such a sidecar from its first bytes; a trace is known by its own."""
    return head.lstrip().startswith(_FIRST)


def probe(path: Path, trust_packed: bool = False, with_times: bool = True) -> Trace:
    """Describe a sidecar.

    Raises:
        InputError: it is damaged, or larger than any is.
    """
    told = _read(path)
    return Trace(
        path=path,
        format="capture",
        size_bytes=path.stat().st_size,
        processes=(
            Process(
                key=0,
                rank=whole(told.get("rank"), MOST_RANK),
                rank_source="traceweave.capture",
                world_size=whole(told.get("world_size"), MOST_RANK) or None,
                host=parse_captured(told).host,
                pid=whole(told.get("pid"), MOST_RANK),
            ),
        ),
        producer="traceweave.capture",
        producer_version=text(told.get("version")),
        beside=True,
    )


def load(con: duckdb.DuckDBPyConnection, trace: Trace, source_id: int, report: Report) -> Loaded:
    """Fill the tables of roles and settings.

    Raises:
        InputError: it is damaged.
    """
    captured = replace(parse_captured(_read(trace.path)), exchanges=())
    rank = trace.processes[0].rank
    if rank is not None:
        store_captured(con, [(rank, source_id, captured)])
    report(trace.size_bytes)
    stored = len(captured.roles) + len(captured.settings)
    return Loaded(stored, stored)


def _read(path: Path) -> dict[str, Any]:
    if path.stat().st_size > _MOST_BYTES:
        raise InputError(f"{path}: is larger than what traceweave.capture writes")
    try:
        told = orjson.loads(path.read_bytes())["traceweave"]
    except (orjson.JSONDecodeError, LookupError, TypeError) as error:
        raise InputError(f"{path}: is damaged ({error}); copy it again") from error
    return mapping(told)
