"""NCCL Inspector (a profiler plug-in of NCCL 2.28 and newer): one JSON object per operation and
line, format 4.0 to 4.2.
"""

from __future__ import annotations

import duckdb

from traceweave.sources.model import Loaded, Report, Trace
from traceweave.sources.nccl_inspector.probe import probe, recognize

__all__ = ["load", "probe", "recognize"]


def load(con: duckdb.DuckDBPyConnection, trace: Trace, source_id: int, report: Report) -> Loaded:
    """Fill the tables of NCCL's records; `report` gets bytes of the file as read."""
    from traceweave.sources.nccl_inspector.load_records import load_records

    return load_records(con, trace, source_id, report)
