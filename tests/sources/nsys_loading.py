"""Loading one nsys export into a fresh database, for the tests of this reader."""

import dataclasses
from pathlib import Path
from typing import Any

import duckdb

from tests.sources.nsys_export import write_export
from traceweave.sources import nsys
from traceweave.sources.model import Loaded, Trace
from traceweave.store.empty import create_tables


@dataclasses.dataclass(frozen=True)
class LoadedExport:
    """A database filled from one export."""

    con: duckdb.DuckDBPyConnection
    trace: Trace
    loaded: Loaded

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.con.execute(sql).fetchall()

    def issue(self, kind: str) -> int:
        return sum(i.count for i in self.loaded.issues if i.kind == kind)


def load_export(path: Path, database: Path | None = None) -> LoadedExport:
    """Load an export as source 1; a lone process without a rank becomes rank 0."""
    trace = nsys.probe(path)
    if len(trace.processes) == 1 and trace.processes[0].rank is None:
        trace = trace.with_ranks({trace.processes[0].key: (0, "the only one")})
    con = duckdb.connect(str(database) if database else ":memory:")
    create_tables(con)
    loaded = nsys.load(con, trace, 1, lambda _: None)
    return LoadedExport(con, trace, loaded)


def load_rows(folder: Path, **tables: Any) -> LoadedExport:
    """Load an export that holds these rows, written in this folder."""
    return load_export(write_export(folder / "rows.sqlite", **tables))
