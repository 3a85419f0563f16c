from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest

import traceweave
from traceweave.store.rows import insert_rows

SOURCES = [
    path
    for folder in ("sources", "matching", "clocks", "ingestion", "store")
    for path in sorted((Path(traceweave.__file__).parent / folder).rglob("*"))
    if path.suffix in {".sql", ".py"}
]


def test_rows_go_where_their_names_say(empty_run: duckdb.DuckDBPyConnection) -> None:
    insert_rows(empty_run, "meta", [{"value": "v", "name": "n"}, {"name": "bare", "value": None}])
    found = empty_run.execute("SELECT * FROM meta WHERE name IN ('n', 'bare') ORDER BY 1 DESC")
    assert found.fetchall() == [("n", "v"), ("bare", None)]
    with pytest.raises(duckdb.BinderException, match="nowhere"):
        insert_rows(empty_run, "meta", [{"nowhere": 1}])


def test_nothing_is_inserted_by_the_place_of_a_column() -> None:
    """A new column of a table would shift all that follow it."""
    inserts = [
        (path.name, found[0])
        for path in SOURCES
        for found in re.finditer(r"INSERT INTO \S+[^\n]{0,9}", path.read_text("utf-8"))
    ]
    assert len(inserts) > 30
    by_place = [i for i in inserts if not re.search(r"INSERT INTO \S+ (BY NAME|\()", i[1])]
    assert by_place == []
