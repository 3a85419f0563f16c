"""Reader of Nsight Systems exports: SQLite, packed or not, and folders of Parquet or Arrow tables.

`recognize`, `probe` and `load` are what every format offers; `export_report` makes an export of a
binary report.
"""

from __future__ import annotations

from traceweave.sources.nsys.export_report import export_command, export_report, is_report
from traceweave.sources.nsys.folder_reader import is_export_folder
from traceweave.sources.nsys.load import load
from traceweave.sources.nsys.probe import probe, recognize

__all__ = [
    "export_command",
    "export_report",
    "is_export_folder",
    "is_report",
    "load",
    "probe",
    "recognize",
]
