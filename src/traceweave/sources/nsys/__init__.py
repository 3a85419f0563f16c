"""Reader of Nsight Systems exports: SQLite, packed or not, and folders of Parquet or Arrow tables.

`recognize`, `probe` and `load` are what every format offers; `export_report` makes an export of a
binary report. What reads exports is imported when there is one: Arrow takes longer than a small
file.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

from traceweave.sources.model import Loaded, Report, Trace
from traceweave.sources.nsys.export_report import (
    REPORT_SUFFIXES,
    export_command,
    export_report,
    is_report,
)
from traceweave.sources.nsys.recognize import are_export, is_export_folder, recognize

__all__ = [
    "REPORT_SUFFIXES",
    "are_export",
    "export_command",
    "export_report",
    "is_export_folder",
    "is_report",
    "load",
    "probe",
    "recognize",
]


def probe(path: Path, trust_packed: bool = False, with_times: bool = True) -> Trace:
    """Describe an export: its processes with the evidence for their ranks, its clock, its maker."""
    from traceweave.sources.nsys.probe_export import probe_export

    return probe_export(path, trust_packed)


def load(con: duckdb.DuckDBPyConnection, trace: Trace, source_id: int, report: Report) -> Loaded:
    """Fill the base tables of `con` from an export; `report` gets bytes of the file as read."""
    from traceweave.sources.nsys.load_export import load_export

    return load_export(con, trace, source_id, report)
