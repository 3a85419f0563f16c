"""NCCL's own logs (NCCL_DEBUG=INFO; NCCL 2.10 to 2.30, RCCL): which communicators a job had, and
which algorithm and protocol NCCL chose for which size.

One file may hold the lines of one process or of many, mixed.
"""

from __future__ import annotations

import duckdb

from traceweave.sources.model import Loaded, Report, Trace
from traceweave.sources.nccl_logs.probe import probe, recognize

__all__ = ["load", "probe", "recognize"]


def load(con: duckdb.DuckDBPyConnection, trace: Trace, source_id: int, report: Report) -> Loaded:
    """Fill the tables of NCCL's records from a log; `report` gets bytes of the file as read."""
    from traceweave.sources.nccl_logs.load_log import load_log

    return load_log(con, trace, source_id, report)
