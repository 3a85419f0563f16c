"""Flight recorder: the dumps that torch's process groups leave of their last collectives (torch 2.3
to 2.15; NCCL and gloo; pickle and JSON), one file per rank.

What loads them is imported when there is one: Arrow takes longer than a small file.
"""

from __future__ import annotations

import duckdb

from traceweave.sources.flight_recorder.probe import probe, recognize
from traceweave.sources.model import Loaded, Report, Trace

__all__ = ["load", "probe", "recognize"]


def load(con: duckdb.DuckDBPyConnection, trace: Trace, source_id: int, report: Report) -> Loaded:
    """Fill the tables of the recorder from a dump; `report` gets bytes of the file as read."""
    from traceweave.sources.flight_recorder.load_dump import load_dump

    return load_dump(con, trace, source_id, report)
